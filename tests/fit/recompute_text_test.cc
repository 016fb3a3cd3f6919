// What is said to be computed again: values that the model has, and no others.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "fit/recompute_search.h"
#include "model/locate.h"
#include "plan/layout.h"
#include "plan/plan_figures.h"
#include "plan/plan_json.h"
#include "plan/training.h"
#include "support/small_llama.h"

namespace snug {
namespace {

class RecomputeText : public testing::Test {
 protected:
  RecomputeText() {
    recipe_.lora = LoraSection{};
    recipe_.memory.micro_batch_tokens = 20;
  }

  std::string with(std::vector<Recompute> policies) {
    recipe_.memory.recompute = std::move(policies);
    return describe_recompute(recipe_, plan_training(recipe_, spec_, backend_));
  }

  CpuBackend backend_;
  ModelSpec spec_ = small_llama(3);
  Recipe recipe_ = small_recipe();
};

TEST_F(RecomputeText, NamesDropoutWhereThereIsSome) {
  const std::vector<Recompute> policies = {Recompute::selective, Recompute::none, Recompute::none};
  EXPECT_EQ(with(policies), "recomputation in layers 0 (norms and gated)");
  recipe_.lora->lora_dropout = 0.1;
  EXPECT_EQ(with(policies), "recomputation in layers 0 (norms, gated and dropout)");
}

TEST_F(RecomputeText, NamesAdaptersWhereThereAreSome) {
  Recompute kept{LayerValues{}.with(LayerValue::sum).with(LayerValue::lora)};
  EXPECT_EQ(with({kept, kept, Recompute::none}), "recomputation in layers 0-1 (all but sum and lora)");
  recipe_.lora.reset();
  EXPECT_EQ(with({kept, kept, Recompute::none}), "recomputation in layers 0-1 (all but sum)");
}

// Everything that the model has is everything, and nothing of it is nothing.
TEST_F(RecomputeText, CountsWhatTheModelHas) {
  recipe_.lora.reset();
  Recompute only_lora{LayerValues{}.with(LayerValue::lora)};
  EXPECT_EQ(with({only_lora, Recompute::none, Recompute::none}), "recomputation in layers 0 (everything)");
  EXPECT_EQ(with({only_lora}), "full recomputation in all layers");
  Recompute all_but_dropout{kAllLayerValues.without(LayerValue::dropout)};
  EXPECT_EQ(with({all_but_dropout}), "nothing recomputed");
  Recompute no_norms_no_gated{kAllLayerValues.without(LayerValue::norms).without(LayerValue::gated)};
  EXPECT_EQ(with({no_norms_no_gated}), "selective recomputation in all layers");
  // Policies that differ in nothing that the model has are one range.
  EXPECT_EQ(with({Recompute::full, only_lora, Recompute::none}), "recomputation in layers 0-1 (everything)");
}

// T5 turns nothing and has dropout of its own.
TEST_F(RecomputeText, KnowsModelsOfOtherFamilies) {
  spec_ = locate_model("google/flan-t5-small").spec;
  recipe_.lora.reset();
  recipe_.data.max_target_length = 20;
  std::vector<Recompute> policies(16, Recompute::none);
  policies[0] = {
      kAllLayerValues.without(LayerValue::rotated).without(LayerValue::norms).without(LayerValue::dropout)};
  EXPECT_EQ(with(policies), "recomputation in layers 0 (norms and dropout)");
}

// A plan that is read back tells the same as the plan itself.
TEST_F(RecomputeText, IsKnownFromThePlansFile) {
  Plan plan = plan_training(recipe_, spec_, backend_);
  LayerValues values = figures_of(plan).layer_values;
  EXPECT_FALSE(values.contains(LayerValue::dropout));
  EXPECT_TRUE(values.contains(LayerValue::lora));
  Json file = plan_to_json(plan);
  EXPECT_EQ(read_plan_figures(file, "plan.json").layer_values, kAllLayerValues) << "nobody knows";
  file["layout"] = layout_to_json(layout_of(plan));
  EXPECT_EQ(read_plan_figures(file, "plan.json").layer_values, values);
}

}  // namespace
}  // namespace snug
