// Recomputation changes no bit, at sizes that the kernels of large batches take (docs/same_result.md).
#include <gtest/gtest.h>

#include "cuda/training/card_fixture.h"
#include "data/batches/synthetic.h"
#include "support/reference_case.h"

namespace snug {
namespace {

constexpr int64_t kLength = 64;
constexpr int64_t kSequences = 65;
constexpr int kSteps = 3;

std::vector<double> losses_and_norms(Recipe recipe, const Recompute& policy) {
  recipe.memory.recompute = {policy};
  CardFixture fixture(recipe);
  std::vector<double> values;
  for (int step = 0; step < kSteps; ++step) {
    Batch batch = random_batch({kSequences, kLength, fixture.spec.vocabulary}, static_cast<uint64_t>(step));
    StepResult result = fixture.runner.run_step({batch}, step, kSteps);
    values.push_back(result.loss);
    values.push_back(result.gradient_norm);
  }
  return values;
}

TEST(CudaRecompute, ChangesNoBit) {
  SKIP_WITHOUT_CARD();
  for (int64_t rank : {0, 8, 40}) {
    Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
    recipe.model.dtype = DType::bf16;
    recipe.data.max_length = kLength;
    recipe.training.learning_rate = 1e-2;
    recipe.training.per_device_train_batch_size = kSequences;
    if (rank > 0) {
      recipe.lora = LoraSection{.r = rank};
    }
    std::vector<double> kept = losses_and_norms(recipe, Recompute::none);
    EXPECT_NE(kept[0], kept[2]);
    for (const Recompute& policy :
         {Recompute{Recompute::selective}, Recompute{Recompute::full},
          Recompute{LayerValues{}.with(LayerValue::gated)},
          Recompute{LayerValues{}.with(LayerValue::gate_up)},
          Recompute{LayerValues{}.with(LayerValue::gate_up).with(LayerValue::lora)}}) {
      EXPECT_EQ(losses_and_norms(recipe, policy), kept) << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace snug
