// Comparing evaluations.
#include "train/best_evaluation.h"

#include "recipe/eval_metric.h"

namespace snug {

bool note_evaluation(const EvaluationMetrics& evaluation, const TrainingSection& training,
                     RunProgress& progress) {
  double value = evaluation.loss;
  std::string set = set_of_best_metric(training);
  for (const SetMetrics& one : evaluation.sets) {
    value = one.name == set ? one.loss : value;
  }
  double gain = 0;
  if (progress.best) {
    gain = training.greater_is_better ? value - progress.best->value : progress.best->value - value;
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
