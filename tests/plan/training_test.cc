// How evaluation is planned.
#include "plan/training.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "support/small_llama.h"

namespace snug {
namespace {

TEST(Evaluation, IsPlannedWhereTheRecipeEvaluates) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  EXPECT_EQ(plan_training(recipe, small_llama(), backend).phases.size(), 5U);
  recipe.data.eval_file.clear();
  EXPECT_EQ(plan_training(recipe, small_llama(), backend).phases.size(), 4U);
  recipe.data.eval_split = 0.1;
  EXPECT_EQ(plan_training(recipe, small_llama(), backend).phases.size(), 5U);
}

TEST(Evaluation, LeftOpenNeverRaisesThePeak) {
  CpuBackend backend;
  for (int64_t batch : {1, 2, 8}) {
    for (Recompute policy : {Recompute::none, Recompute::selective, Recompute::full}) {
      Recipe recipe = small_recipe();
      recipe.lora = LoraSection{};
      recipe.training.per_device_train_batch_size = batch;
      recipe.training.per_device_eval_batch_size.reset();
      recipe.memory.recompute = {policy};
      Plan open = plan_training(recipe, small_llama(), backend);
      int64_t sequences = open.evaluated_sequences.value();
      EXPECT_GE(sequences, 1);
      EXPECT_LE(sequences, 64);
      recipe.data.eval_file.clear();
      EXPECT_EQ(open.arena_bytes, plan_training(recipe, small_llama(), backend).arena_bytes);
      // The next larger size would.
      recipe.data.eval_file = {"eval.jsonl"};
      recipe.training.per_device_eval_batch_size = 2 * sequences;
      EXPECT_TRUE(sequences == 64 ||
                  plan_training(recipe, small_llama(), backend).device_bytes() > open.device_bytes());
    }
  }
}

}  // namespace
}  // namespace snug
