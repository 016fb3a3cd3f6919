// Comparing evaluations.
#include "train/best_evaluation.h"

#include "recipe/eval_metric.h"

namespace snug {
namespace {

template <typename Metrics>
double measured(const Metrics& metrics, EvalMeasure measure) {
  switch (measure) {
    case EvalMeasure::loss:
      return metrics.loss;
    case EvalMeasure::token_accuracy:
      return metrics.token_accuracy();
    case EvalMeasure::exact_match:
      return metrics.exact_match();
  }
  return metrics.loss;
}

}  // namespace

bool note_evaluation(const EvaluationMetrics& evaluation, const TrainingSection& training,
                     RunProgress& progress) {
  EvalMetric metric = best_metric(training);
  double value = measured(evaluation, metric.measure);
  for (const SetMetrics& one : evaluation.sets) {
    value = one.name == metric.set ? measured(one, metric.measure) : value;
  }
  double gain = 0;
  if (progress.best) {
    gain = greater_is_better(training) ? value - progress.best->value : progress.best->value - value;
  }
  bool is_better = !progress.best || gain > training.early_stopping_threshold;
  progress.evaluations_no_better = is_better ? 0 : progress.evaluations_no_better + 1;
  bool is_best = !progress.best || gain > 0;
  if (is_best) {
    progress.best = {.step = evaluation.step, .value = value};
  }
  return is_best;
}

bool has_lost_patience(const TrainingSection& training, const RunProgress& progress) {
  return training.early_stopping_patience > 0 &&
         progress.evaluations_no_better >= training.early_stopping_patience;
}

}  // namespace snug
