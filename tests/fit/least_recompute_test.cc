// The least recomputation that fits, against every number of layers tried in turn.
#include "fit/least_recompute.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "plan/training.h"
#include "support/small_llama.h"

namespace snug {
namespace {

class LeastRecompute : public testing::Test {
 protected:
  static constexpr int64_t kLayers = 5;

  void SetUp() override {
    recipe_.training.per_device_train_batch_size = 4;
    recipe_.lora = LoraSection{};
  }

  std::vector<Recompute> layers(int64_t full) const {
    std::vector<Recompute> policies(static_cast<size_t>(kLayers), Recompute::selective);
    std::fill_n(policies.begin(), full, Recompute::full);
    return policies;
  }

  int64_t peak_of(const std::vector<Recompute>& policies) const {
    Recipe recipe = recipe_;
    recipe.memory.recompute = policies;
    return plan_training(recipe, spec_, backend_).peak_bytes();
  }

  CpuBackend backend_;
  ModelSpec spec_ = small_llama(kLayers);
  Recipe recipe_ = small_recipe();
};

TEST_F(LeastRecompute, IsNoneWhereAllFits) {
  std::vector<Recompute> none(static_cast<size_t>(kLayers), Recompute::none);
  recipe_.memory.limit_bytes = peak_of(none);
  FittedRecipe fitted = with_least_recompute(recipe_, spec_, backend_);
  EXPECT_TRUE(fitted.plan.fits());
  EXPECT_EQ(fitted.recipe.memory.recompute, none);
}

TEST_F(LeastRecompute, IsTheFirstNumberOfLayersThatFits) {
  for (int64_t limit_of = 0; limit_of <= kLayers; ++limit_of) {
    recipe_.memory.limit_bytes = peak_of(layers(limit_of));
    int64_t first = 0;
    while (peak_of(layers(first)) > *recipe_.memory.limit_bytes) {
      ++first;
    }
    FittedRecipe fitted = with_least_recompute(recipe_, spec_, backend_);
    EXPECT_TRUE(fitted.plan.fits());
    EXPECT_EQ(fitted.recipe.memory.recompute, layers(first)) << limit_of;
    EXPECT_EQ(fitted.plan.peak_bytes(), peak_of(layers(first)));
  }
}

TEST_F(LeastRecompute, SaysWhereNothingFits) {
  recipe_.memory.limit_bytes = 1000;
  FittedRecipe fitted = with_least_recompute(recipe_, spec_, backend_);
  EXPECT_FALSE(fitted.plan.fits());
  EXPECT_EQ(fitted.recipe.memory.recompute, layers(kLayers));
}

}  // namespace
}  // namespace snug
