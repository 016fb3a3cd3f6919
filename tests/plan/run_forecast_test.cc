// A run's length against sums made by hand.
#include "plan/run_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/null/null_backend.h"
#include "compile/phases.h"
#include "plan/speed.h"
#include "plan/training.h"
#include "support/card_rates.h"
#include "support/small_llama.h"

namespace snug {
namespace {

Recipe evaluated_recipe() {
  Recipe recipe = small_recipe();
  recipe.data.eval_file = {"eval.jsonl"};
  recipe.training.per_device_train_batch_size = 8;
  recipe.training.gradient_accumulation_steps = 16;
  recipe.training.num_train_epochs = 5;
  return recipe;
}

Plan plan_of(const Recipe& recipe) {
  return plan_training(recipe, small_llama(), NullBackend());
}

// 6,000,000 rows in steps of 8 x 16, 5 epochs: what somebody divided by 8 twice.
TEST(RunForecast, CountsSteps) {
  RunLength length = length_without_data(evaluated_recipe().training, 6'000'000);
  EXPECT_EQ(length.steps_per_epoch, 46'875);
  EXPECT_EQ(length.steps, 234'375);
  Recipe recipe = evaluated_recipe();
  recipe.training.num_train_epochs = 1.1;
  EXPECT_EQ(length_without_data(recipe.training, 1280).steps, 11);
  EXPECT_EQ(length_without_data(recipe.training, 1281).steps_per_epoch, 11) << "the last is not full";
  recipe.training.max_steps = 300;
  EXPECT_EQ(length_without_data(recipe.training, 1280).steps, 300);
  EXPECT_EQ(length_without_data(recipe.training, std::nullopt).steps, 300);
  EXPECT_FALSE(length_without_data(evaluated_recipe().training, std::nullopt).steps);
}

TEST(RunForecast, HoursAreStepsAndEvaluations) {
  Recipe recipe = evaluated_recipe();
  recipe.training.eval_steps = 1000;
  Plan plan = plan_of(recipe);
  RunLength length = length_without_data(recipe.training, 6'000'000);
  RunForecast run = forecast_run(plan, recipe, length, kRates);
  EXPECT_EQ(run.evaluations, 235) << "one behind every 1,000 steps, and one at the end";
  EXPECT_FALSE(run.counts_evaluations());
  double step = step_seconds(plan, kRates);
  EXPECT_DOUBLE_EQ(*run.hours(), 234'375 * step / 3600);
  // An evaluation with as many tokens as three of its batches.
  BatchLimits batch = planned_batch(plan, kEvaluatePhase);
  length.evaluated_tokens = 3.0 * static_cast<double>(batch.tokens);
  run = forecast_run(plan, recipe, length, kRates);
  EXPECT_TRUE(run.counts_evaluations());
  double evaluation = 3 * program_seconds(plan.phase(kEvaluatePhase).program, 1, kRates);
  EXPECT_NEAR(*run.hours(), (234'375 * step + 235 * evaluation) / 3600, 1e-9 * *run.hours());
}

// With nothing but arithmetic to take time, half of the targets take half of the loss head away.
TEST(RunForecast, EvaluationsCountTheHeadByWhatIsLearned) {
  Recipe recipe = evaluated_recipe();
  Plan plan = plan_of(recipe);
  DeviceRates rates{.product_flops = 1e12, .ceiling_flops = 1e12, .bytes_per_second = 1e30};
  RunLength length = length_without_data(recipe.training, 1280);
  length.evaluated_tokens = 3.0 * static_cast<double>(planned_batch(plan, kEvaluatePhase).tokens);
  double all = *forecast_run(plan, recipe, length, rates).evaluation_seconds;
  length.evaluated_learned = 0.5;
  RunForecast half = forecast_run(plan, recipe, length, rates);
  const Program& evaluate = plan.phase(kEvaluatePhase).program;
  auto head = std::find_if(evaluate.ops.begin(), evaluate.ops.end(),
                           [](const Op& op) { return op.kind == OpKind::loss_head; });
  EXPECT_NEAR(all - *half.evaluation_seconds, 3 * 0.5 * op_seconds(evaluate, *head, rates), 1e-9 * all);
  EXPECT_DOUBLE_EQ(*half.step_seconds, step_seconds(plan, rates)) << "training has a share of its own";
}

TEST(RunForecast, EvaluatesOnceAtTheEndAndAStageAlsoBefore) {
  Recipe recipe = evaluated_recipe();
  RunLength length = length_without_data(recipe.training, 1280);
  EXPECT_EQ(forecast_run(plan_of(recipe), recipe, length, kRates).evaluations, 1);
  recipe.training.eval_steps = 10;  // 50 steps: the last one is evaluated
  EXPECT_EQ(forecast_run(plan_of(recipe), recipe, length, kRates).evaluations, 5);
  recipe.stage.name = "first";
  EXPECT_EQ(forecast_run(plan_of(recipe), recipe, length, kRates).evaluations, 6);
  recipe.data.eval_file.clear();
  EXPECT_EQ(forecast_run(plan_of(recipe), recipe, length, kRates).evaluations, 0);
}

TEST(RunForecast, SaysNothingThatNobodyKnows) {
  Recipe recipe = evaluated_recipe();
  RunLength length = length_without_data(recipe.training, 1280);
  EXPECT_FALSE(forecast_run(plan_of(recipe), recipe, length, {}).hours()) << "no rates";
  EXPECT_FALSE(forecast_run(plan_of(recipe), recipe, {}, kRates).hours()) << "no rows";
  recipe.memory.limit_bytes = 1000;
  EXPECT_FALSE(forecast_run(plan_of(recipe), recipe, length, kRates).hours()) << "it cannot be run";
}

}  // namespace
}  // namespace snug
