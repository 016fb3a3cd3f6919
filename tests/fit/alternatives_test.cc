// What is suggested when a plan does not fit.
#include "fit/alternatives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_plan/catalogue.h"
#include "backend/cuda_plan/planned_card.h"
#include "fit/choice.h"
#include "plan/training.h"
#include "recipe/choices.h"
#include "recipe/parse.h"
#include "recipe/write.h"
#include "support/small_llama.h"

namespace snug {
namespace {

// As a user would write them.
Plan plan_with(const Recipe& recipe, const std::vector<std::string>& settings, const ModelSpec& spec,
               const Device& device) {
  return choose_plan(parse_recipe(recipe_to_yaml(recipe), "", settings), spec, device).plan;
}

TEST(Fit, AlternativesFitAndKeepTheEffectiveBatch) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  recipe.data.train_file = {{"train.jsonl"}};
  recipe.lora = LoraSection{};
  recipe.training.per_device_train_batch_size = 8;
  recipe.training.per_device_eval_batch_size = 8;
  recipe.training.gradient_accumulation_steps = 2;
  ModelSpec spec = small_llama(8);
  int64_t needed = plan_training(recipe, spec, backend).peak_bytes();
  recipe.memory.limit_bytes = needed * 6 / 10;
  recipe.memory.micro_batch_tokens = 8 * recipe.data.max_length;
  recipe.memory.recompute = {Recompute::none};
  ASSERT_FALSE(plan_training(recipe, spec, backend).fits());
  Alternatives alternatives = find_alternatives(recipe, spec, backend);
  ASSERT_FALSE(alternatives.same.empty());
  for (const Alternative& alternative : alternatives.same) {
    EXPECT_LE(alternative.peak_bytes, *recipe.memory.limit_bytes);
    EXPECT_EQ(plan_with(recipe, alternative.settings, spec, backend).peak_bytes(), alternative.peak_bytes);
    EXPECT_TRUE(alternative.changes.empty());
  }
  recipe.memory.limit_bytes = 1000;
  EXPECT_TRUE(find_alternatives(recipe, spec, backend).same.empty());
  EXPECT_TRUE(find_alternatives(recipe, spec, backend).opt_in.empty());
}

// What was chosen tells what a step takes as the recipe is, and what takes least where nothing is written.
TEST(Fit, AlternativesToWhatWasChosenAreTheSame) {
  PlannedCard card(&find_catalogue_card("h200"));  // whose rates are known
  Recipe recipe = small_recipe();
  recipe.training.per_device_train_batch_size = 8;
  recipe.training.per_device_eval_batch_size.reset();
  ModelSpec spec = small_llama();
  Recipe narrow = recipe;
  narrow.training.optimizer_states = OptimizerStates::bf16;
  recipe.memory.limit_bytes = least_peak_bytes(narrow, spec, card);
  for (const std::vector<Recompute>& written : {std::vector<Recompute>(), std::vector{Recompute::none}}) {
    recipe.memory.recompute = written;
    ChosenRecipe chosen = choose_recipe(recipe, spec, card);
    ASSERT_FALSE(chosen.fits);
    Alternatives alone = find_alternatives(recipe, spec, card);
    Alternatives told = find_alternatives(recipe, spec, card, {}, {}, &chosen);
    EXPECT_EQ(told.least_bytes, alone.least_bytes);
    ASSERT_EQ(told.opt_in.size(), alone.opt_in.size());
    ASSERT_FALSE(alone.opt_in.empty());
    ASSERT_TRUE(alone.opt_in.front().slower.has_value());
    for (size_t i = 0; i < alone.opt_in.size(); ++i) {
      EXPECT_EQ(told.opt_in[i].settings, alone.opt_in[i].settings);
      EXPECT_EQ(told.opt_in[i].slower, alone.opt_in[i].slower);
    }
  }
}

// A recipe whose evaluation alone is too large: that is what changes, and nothing else.
TEST(Fit, AnEvaluationBatchChangesOnlyIfItIsWhatDoesNotFit) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  recipe.training.per_device_train_batch_size = 2;
  recipe.memory.recompute = {Recompute::none};
  ModelSpec spec = small_llama();
  int64_t needed = plan_training(recipe, spec, backend).peak_bytes();
  recipe.memory.limit_bytes = needed;
  recipe.training.per_device_eval_batch_size = 512;
  ASSERT_FALSE(plan_training(recipe, spec, backend).fits());
  Alternatives alternatives = find_alternatives(recipe, spec, backend);
  ASSERT_FALSE(alternatives.same.empty());
  EXPECT_EQ(alternatives.same.front().settings,
            (std::vector<std::string>{"training.per_device_eval_batch_size=auto"}));
  // Here training is what is too large.
  recipe.training.per_device_eval_batch_size = 2;
  recipe.memory.limit_bytes = needed - 1;
  recipe.memory.micro_batch_tokens = 2 * recipe.data.max_length;
  ASSERT_FALSE(find_alternatives(recipe, spec, backend).same.empty());
  for (const Alternative& alternative : find_alternatives(recipe, spec, backend).same) {
    for (const std::string& setting : alternative.settings) {
      EXPECT_EQ(setting.find("eval"), std::string::npos) << setting;
    }
  }
}

TEST(Fit, WhatChangesNumericsIsOptIn) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  recipe.training.per_device_train_batch_size = 1;
  ModelSpec spec = small_llama();
  // Room for weights and gradients, and for bf16 moments, but not for fp32 ones.
  Recipe narrow = recipe;
  narrow.training.optimizer_states = OptimizerStates::bf16;
  narrow.memory.recompute = {Recompute::full};
  recipe.memory.limit_bytes = plan_training(narrow, spec, backend).peak_bytes();
  Alternatives alternatives = find_alternatives(recipe, spec, backend);
  EXPECT_TRUE(alternatives.same.empty());
  ASSERT_FALSE(alternatives.opt_in.empty());
  EXPECT_EQ(alternatives.opt_in.front().settings,
            (std::vector<std::string>{"training.optimizer_states=bf16"}));
  EXPECT_NE(alternatives.opt_in.front().changes.front().find("bf16"), std::string::npos);
}

TEST(Fit, QuantisedWeightsAreOptInForAdapters) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  recipe.training.per_device_train_batch_size = 1;
  recipe.model.dtype = DType::bf16;
  recipe.training.optimizer_states = OptimizerStates::bf16;
  recipe.lora = LoraSection{};
  recipe.lora->r = 1;
  recipe.data.train_file = {{"train.jsonl"}};
  ModelSpec spec = small_llama(8);
  Recipe narrow = recipe;
  narrow.memory.recompute = {Recompute::full};
  for (auto [quantization, word] :
       {std::pair(Quantization::int8, "8 bits"), std::pair(Quantization::nf4_double, "4 bits")}) {
    narrow.model.quantization = quantization;
    recipe.memory.limit_bytes = plan_training(narrow, spec, backend).peak_bytes();
    Alternatives alternatives = find_alternatives(recipe, spec, backend);
    std::string setting = "model.quantization=" + std::string(name_of(quantization));
    auto found =
        std::find_if(alternatives.opt_in.begin(), alternatives.opt_in.end(),
                     [&](const Alternative& alternative) { return alternative.settings.front() == setting; });
    ASSERT_NE(found, alternatives.opt_in.end()) << setting;
    EXPECT_NE(found->changes.front().find(word), std::string::npos) << found->changes.front();
    EXPECT_EQ(plan_with(recipe, found->settings, spec, backend).peak_bytes(), found->peak_bytes);
  }
  // Weights that are trained cannot be codes.
  recipe.lora.reset();
  for (const Alternative& alternative : find_alternatives(recipe, spec, backend).opt_in) {
    EXPECT_NE(alternative.settings.front().substr(0, 18), "model.quantization");
  }
}

}  // namespace
}  // namespace snug
