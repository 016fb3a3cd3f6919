// Steps times seconds.
#include "plan/run_forecast.h"

#include <fmt/format.h>

#include "compile/phases.h"
#include "plan/speed.h"
#include "plan/training.h"
#include "recipe/effective_batch.h"
#include "recipe/eval_metric.h"

namespace snug {
namespace {

constexpr double kSecondsPerHour = 3600;

// After every so many steps, and once at the end; a stage begins with one too.
int64_t count_evaluations(const Recipe& recipe, int64_t steps) {
  int64_t every = recipe.training.eval_steps;
  int64_t between = every > 0 ? steps / every : 0;
  bool ends_with_one = every > 0 && steps % every == 0;
  return between + (ends_with_one ? 0 : 1) + (recipe.stage.name.empty() ? 0 : 1);
}

std::string product_of(const TrainingSection& training) {
  return training.per_device_train_batch_size && training.gradient_accumulation_steps
             ? fmt::format("{} x {}", *training.per_device_train_batch_size,
                           *training.gradient_accumulation_steps)
             : "";
}

double evaluation_seconds(const Plan& plan, double tokens, double learned, const DeviceRates& rates) {
  BatchLimits batch = planned_batch(plan, kEvaluatePhase);
  double batches = tokens / static_cast<double>(batch.tokens + batch.source_tokens);
  return batches * program_seconds(plan.phase(kEvaluatePhase).program, learned, rates);
}

}  // namespace

RunLength length_without_data(const TrainingSection& training, std::optional<int64_t> rows) {
  RunLength length;
  if (rows) {
    length.rows = rows;
    length.steps_per_epoch = steps_for(training, *rows);
    length.steps = steps_of_epochs(training.num_train_epochs, *length.steps_per_epoch);
  }
  if (training.max_steps > 0) {
    length.steps = training.max_steps;
  }
  return length;
}

std::optional<double> RunForecast::hours() const {
  if (!length.steps || !step_seconds) {
    return std::nullopt;
  }
  double seconds = static_cast<double>(*length.steps) * *step_seconds +
                   static_cast<double>(evaluations) * evaluation_seconds.value_or(0);
  return seconds / kSecondsPerHour;
}

RunForecast forecast_run(const Plan& plan, const Recipe& recipe, const RunLength& length,
                         const DeviceRates& rates) {
  RunForecast run{.length = length,
                  .epochs = recipe.training.num_train_epochs,
                  .sequences = effective_batch(recipe.training),
                  .product = product_of(recipe.training),
                  .micro_batches = expected_micro_batches(plan.step),
                  .tokens = plan.step.tokens + plan.step.source_tokens};
  if (length.steps && length.steps_per_epoch && recipe.training.max_steps > 0) {
    run.epochs = static_cast<double>(*length.steps) / static_cast<double>(*length.steps_per_epoch);
  }
  if (plan.evaluated_sequences && length.steps) {
    run.evaluations = count_evaluations(recipe, *length.steps);
    run.generates = most_new_tokens(recipe.training) > 0;
  }
  if (rates.product_flops <= 0 || !plan.fits()) {
    return run;
  }
  run.step_seconds = step_seconds(plan, rates);
  if (run.evaluations > 0 && length.evaluated_tokens) {
    run.evaluation_seconds =
        evaluation_seconds(plan, *length.evaluated_tokens, length.evaluated_learned, rates);
  }
  return run;
}

}  // namespace snug
