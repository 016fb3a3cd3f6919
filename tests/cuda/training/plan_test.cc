// A plan made without a card is the plan that a card runs.
#include <gtest/gtest.h>

#include "backend/cuda_plan/planned_card.h"
#include "cuda/training/card_fixture.h"
#include "support/curve_case.h"
#include "support/small_llama.h"

namespace snug {
namespace {

void expect_equal_plans(const Plan& planned, const Plan& real, const std::string& what) {
  EXPECT_EQ(planned.arena_bytes, real.arena_bytes) << what;
  ASSERT_EQ(planned.phases.size(), real.phases.size()) << what;
  for (size_t i = 0; i < real.phases.size(); ++i) {
    EXPECT_EQ(planned.phases[i].offsets, real.phases[i].offsets) << what << ", " << real.phases[i].name();
  }
}

TEST(CudaPlan, IsTheOneMadeWithoutACard) {
  SKIP_WITHOUT_CARD();
  CudaBackend card;
  PlannedCard planned;
  for (const char* model : {"Qwen/Qwen2.5-7B-Instruct", "google/flan-t5-base", "Qwen/Qwen3-0.6B",
                            "microsoft/Phi-3-mini-4k-instruct", "mistralai/Mistral-7B-Instruct-v0.3"}) {
    ModelSpec spec = locate_model(model).spec;
    for (DType dtype : {DType::f32, DType::bf16}) {
      for (bool lora : {false, true}) {
        for (Recompute policy : {Recompute::none, Recompute::full}) {
          Recipe recipe = small_recipe();
          recipe.model.path = model;
          recipe.model.dtype = dtype;
          recipe.data.max_length = 333;
          recipe.memory.recompute = {policy};
          if (lora) {
            recipe.lora = LoraSection{.r = 16, .lora_dropout = 0.05};
          }
          expect_equal_plans(plan_training(recipe, spec, planned), plan_training(recipe, spec, card), model);
        }
      }
    }
  }
}

// The arena is taken and filled by a run of every phase, not only planned.
TEST(CudaPlan, IsWhatACardAllocates) {
  SKIP_WITHOUT_CARD();
  for (const std::string& name : reference_cases_with("curve.json")) {
    Recipe recipe = curve_recipe(name);
    recipe.model.dtype = DType::bf16;
    CardFixture fixture(recipe);
    largest_difference_from_curve(fixture.runner, name);
    Plan planned = plan_training(recipe, fixture.spec, PlannedCard());
    EXPECT_EQ(fixture.backend.allocated_bytes(Home::device), planned.device_bytes()) << name;
    EXPECT_LE(fixture.backend.touched_bytes(Home::device), planned.device_bytes()) << name;
  }
}

}  // namespace
}  // namespace snug
