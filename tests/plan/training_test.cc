// How evaluation is planned.
#include "plan/training.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "program/names.h"
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

// Where nothing is generated, nothing is planned for it; and what is, shares the memory of training.
TEST(Evaluation, AnswersArePlannedWhereTheyAreAskedFor) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  Plan without = plan_training(recipe, small_llama(), backend);
  recipe.training.eval_max_new_tokens = 4;
  Plan with = plan_training(recipe, small_llama(), backend);
  std::vector<std::string> names;
  for (const PhasePlan& phase : with.phases) {
    names.push_back(phase.name());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"load", "train", "update", "evaluate", "generate", "save"}));
  EXPECT_EQ(with.arena_bytes, without.arena_bytes);
  const Program& generate = with.phase(kGeneratePhase).program;
  int64_t cache_bytes = 0;
  for (const Buffer& buffer : generate.buffers) {
    cache_bytes += buffer.role == Role::kv_cache ? buffer.max_bytes() : 0;
  }
  // 3 layers, keys and values, 2 heads of 6; what follows the last token of an answer is not asked for.
  EXPECT_EQ(cache_bytes, 3 * 2 * (2 * 6) * (20 + 4 - 1) * 4);
  recipe.data.eval_file.clear();
  EXPECT_EQ(plan_training(recipe, small_llama(), backend).phases.size(), 4U);
}

}  // namespace
}  // namespace snug
