// Plans to choose between are the plans that are run by.
#include "plan/micro_batch_plans.h"

#include <gtest/gtest.h>

#include "backend/cuda_plan/planned_card.h"
#include "backend/null/null_backend.h"
#include "compile/phases.h"
#include "plan/layout.h"
#include "plan/speed.h"
#include "plan/training.h"
#include "support/card_rates.h"
#include "support/small_llama.h"

namespace snug {
namespace {

Recipe evaluated_recipe() {
  Recipe recipe = small_recipe();
  recipe.data.eval_file = {"eval.jsonl"};
  recipe.training.per_device_train_batch_size = 4;
  recipe.training.gradient_accumulation_steps = 2;
  recipe.training.eval_max_new_tokens = 3;
  return recipe;
}

void expect_equal_to_plans(const Recipe& first, const Device& device) {
  ModelSpec spec = small_llama();
  LimitsOf limits;
  MicroBatchPlans plans(first, spec, device, limits, kRates);
  Plan of_first = plan_training(first, spec, device);
  MicroBatchPlan again = plans.with(first);
  EXPECT_EQ(again.peak_bytes, of_first.peak_bytes());
  EXPECT_EQ(again.train.offsets, of_first.phase(kTrainPhase).offsets);
  EXPECT_DOUBLE_EQ(again.seconds, step_seconds(of_first, kRates));
  int64_t longest = first.data.max_length;
  for (int64_t tokens : {longest, 2 * longest, 4 * longest}) {
    for (Recompute policy : {Recompute::none, Recompute::selective, Recompute::full}) {
      Recipe recipe = first;
      recipe.memory.micro_batch_tokens = tokens;
      recipe.memory.recompute = {policy};
      Plan whole = plan_training(recipe, spec, device);
      MicroBatchPlan one = plans.with(recipe);
      EXPECT_EQ(one.peak_bytes, whole.peak_bytes());
      EXPECT_EQ(one.train.offsets, whole.phase(kTrainPhase).offsets);
      EXPECT_EQ(one.step.most, whole.step.most);
      EXPECT_DOUBLE_EQ(one.seconds, step_seconds(whole, kRates));
      EXPECT_EQ(plans.room_bytes(), *whole.limit_bytes - whole.context_bytes -
                                        persistent_bytes(layout_of(whole.phase(kLoadPhase))));
    }
  }
}

TEST(MicroBatchPlans, AreThoseOfTheWholeRun) {
  Recipe recipe = evaluated_recipe();
  recipe.memory.limit_bytes = int64_t{1} << 30;
  expect_equal_to_plans(recipe, NullBackend());
  expect_equal_to_plans(recipe, PlannedCard());
  recipe.lora = LoraSection{.r = 4, .lora_dropout = 0.1};
  expect_equal_to_plans(recipe, PlannedCard());
}

TEST(MicroBatchPlans, KnowWhereNothingHelps) {
  Recipe recipe = evaluated_recipe();
  recipe.memory.limit_bytes = 1000;
  ModelSpec spec = small_llama();
  NullBackend device;
  LimitsOf limits;
  EXPECT_FALSE(MicroBatchPlans(recipe, spec, device, limits, kRates).has_room());
  recipe.memory.limit_bytes = int64_t{1} << 30;
  EXPECT_TRUE(MicroBatchPlans(recipe, spec, device, limits, kRates).has_room());
}

}  // namespace
}  // namespace snug
