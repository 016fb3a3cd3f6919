// What is chosen where a recipe leaves it open, against every choice there is.
#include "fit/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "support/rated_backend.h"
#include "support/small_llama.h"

namespace snug {
namespace {

class Choice : public testing::Test {
 protected:
  static constexpr int64_t kLayers = 4;

  Choice() {
    recipe_.data.max_length = 32;
    recipe_.data.eval_file.clear();
    recipe_.training.per_device_train_batch_size = 4;
    recipe_.lora = LoraSection{};
  }

  PlanCost cost_of(const Recipe& recipe) const { return plan_cost(recipe, spec_, backend_); }

  // Every number of layers that recompute everything, and of layers behind them that recompute what is cheap,
  // at every size of micro-batch.
  std::vector<PlanCost> all_choices() const {
    std::vector<PlanCost> all;
    for (int64_t tokens : {128, 64, 32}) {
      for (int64_t full = 0; full <= kLayers; ++full) {
        for (int64_t selective = 0; selective <= kLayers - full; ++selective) {
          Recipe recipe = recipe_;
          recipe.memory.micro_batch_tokens = tokens;
          recipe.memory.recompute.assign(kLayers, Recompute::none);
          std::fill_n(recipe.memory.recompute.begin(), full, Recompute::full);
          std::fill_n(recipe.memory.recompute.begin() + full, selective, Recompute::selective);
          all.push_back(cost_of(recipe));
        }
      }
    }
    return all;
  }

  RatedBackend backend_;
  ModelSpec spec_ = small_llama(kLayers);
  Recipe recipe_ = small_recipe();
};

TEST_F(Choice, IsTheFastestOfAllThatFit) {
  std::vector<PlanCost> all = all_choices();
  int64_t least = least_bytes(all);
  int64_t most = most_bytes(all);
  double before = std::numeric_limits<double>::infinity();
  constexpr int kBudgets = 12;
  for (int i = 0; i <= kBudgets; ++i) {
    recipe_.memory.limit_bytes = least + (most - least) * i / kBudgets;
    FittedRecipe fitted = choose_plan(recipe_, spec_, backend_);
    ASSERT_TRUE(fitted.plan.fits()) << i;
    EXPECT_TRUE(fitted.is_chosen);
    EXPECT_TRUE(fitted.fits);
    EXPECT_EQ(fitted.peak_bytes, fitted.plan.peak_bytes());
    PlanCost chosen = cost_of(fitted.recipe);
    EXPECT_EQ(chosen.peak_bytes, fitted.plan.peak_bytes()) << "the recipe holds the choice";
    EXPECT_LE(chosen.seconds, fastest(all, *recipe_.memory.limit_bytes) * (1 + 1e-9)) << i;
    EXPECT_LE(chosen.seconds, before) << "more memory is never slower";
    before = chosen.seconds;
  }
  EXPECT_EQ(choose_plan(recipe_, spec_, backend_).recipe.memory.recompute, std::vector{Recompute::none});
}

// What is large of all that a layer can keep, in every combination, in two layers.
TEST_F(Choice, IsTheFastestOfAllThatLayersCanKeep) {
  constexpr std::array kValues = {LayerValue::rotated, LayerValue::attention, LayerValue::sum,
                                  LayerValue::gate_up, LayerValue::gated};
  std::vector<Recompute> policies;
  for (uint32_t bits = 0; bits < 1U << kValues.size(); ++bits) {
    LayerValues kept;
    for (size_t i = 0; i < kValues.size(); ++i) {
      kept = (bits >> i & 1U) != 0 ? kept.with(kValues[i]) : kept;
    }
    policies.push_back({kept});
  }
  spec_ = small_llama(2);
  recipe_.memory.micro_batch_tokens = 128;
  std::vector<PlanCost> all;
  for (Recompute first : policies) {
    for (Recompute second : policies) {
      Recipe recipe = recipe_;
      recipe.memory.recompute = {first, second};
      all.push_back(cost_of(recipe));
    }
  }
  int64_t least = least_bytes(all);
  int64_t most = most_bytes(all);
  constexpr int kBudgets = 12;
  for (int i = 0; i <= kBudgets; ++i) {
    recipe_.memory.limit_bytes = least + (most - least) * i / kBudgets;
    FittedRecipe fitted = choose_plan(recipe_, spec_, backend_);
    ASSERT_TRUE(fitted.plan.fits()) << i;
    EXPECT_LE(fitted.seconds, fastest(all, *recipe_.memory.limit_bytes) * (1 + 1e-9)) << i;
  }
}

TEST_F(Choice, KeepsToTheBudgetToTheByte) {
  recipe_.memory.limit_bytes = int64_t{1} << 40;
  FittedRecipe fitted = choose_plan(recipe_, spec_, backend_);
  int64_t step = (fitted.plan.peak_bytes() - least_peak_bytes(recipe_, spec_, backend_)) / 8;
  int different = 0;
  while (fitted.plan.fits()) {
    recipe_.memory.limit_bytes = fitted.plan.peak_bytes();
    FittedRecipe exact = choose_plan(recipe_, spec_, backend_);
    EXPECT_EQ(exact.plan.peak_bytes(), fitted.plan.peak_bytes());
    recipe_.memory.limit_bytes = fitted.plan.peak_bytes() - 1;
    EXPECT_NE(choose_plan(recipe_, spec_, backend_).plan.peak_bytes(), fitted.plan.peak_bytes());
    recipe_.memory.limit_bytes = fitted.plan.peak_bytes() - step;
    fitted = choose_plan(recipe_, spec_, backend_);
    ++different;
  }
  EXPECT_GT(different, 5);
  EXPECT_EQ(fitted.recipe.memory.recompute.front(), Recompute::full) << "where nothing fits, the smallest";
  EXPECT_EQ(fitted.recipe.memory.micro_batch_tokens, 32);
}

TEST_F(Choice, LeavesWhatIsWritten) {
  recipe_.memory.limit_bytes = 1;
  recipe_.memory.recompute = {Recompute::selective};
  EXPECT_EQ(choose_plan(recipe_, spec_, backend_).recipe.memory.recompute, std::vector{Recompute::selective});
  recipe_.memory.micro_batch_tokens = 64;
  FittedRecipe fitted = choose_plan(recipe_, spec_, backend_);
  EXPECT_EQ(fitted.recipe.memory.recompute, std::vector{Recompute::selective});
  EXPECT_EQ(fitted.recipe.memory.micro_batch_tokens, 64);
  EXPECT_FALSE(fitted.is_chosen);
  recipe_.memory.recompute.clear();
  recipe_.memory.limit_bytes = int64_t{1} << 40;
  fitted = choose_plan(recipe_, spec_, backend_);
  EXPECT_EQ(fitted.recipe.memory.recompute, std::vector{Recompute::none});
  EXPECT_EQ(fitted.recipe.memory.micro_batch_tokens, 64);
}

TEST_F(Choice, NeverPlansMoreThanPerDeviceBounds) {
  recipe_.training.gradient_accumulation_steps = 8;
  EXPECT_EQ(choose_plan(recipe_, spec_, backend_).recipe.memory.micro_batch_tokens, 4 * 32);
  recipe_.training.per_device_train_batch_size.reset();
  recipe_.training.gradient_accumulation_steps.reset();
  recipe_.training.effective_batch_size = 32;
  EXPECT_EQ(choose_plan(recipe_, spec_, backend_).recipe.memory.micro_batch_tokens, 32 * 32);
}

// Where nothing fits, it is what takes least: of all choices, and of what is told as the least.
TEST_F(Choice, IsTheSmallestWhereNothingFits) {
  int64_t told = least_peak_bytes(recipe_, spec_, backend_);
  EXPECT_LE(told, least_bytes(all_choices()));
  for (int64_t limit : {int64_t{1}, told / 2, told - 1}) {
    recipe_.memory.limit_bytes = limit;
    FittedRecipe fitted = choose_plan(recipe_, spec_, backend_);
    EXPECT_FALSE(fitted.plan.fits()) << limit;
    EXPECT_FALSE(fitted.fits) << limit;
    EXPECT_EQ(fitted.peak_bytes, told) << limit;
    EXPECT_EQ(fitted.plan.peak_bytes(), told) << limit;
  }
  recipe_.memory.limit_bytes = told;
  EXPECT_TRUE(choose_plan(recipe_, spec_, backend_).plan.fits());
}

}  // namespace
}  // namespace snug
