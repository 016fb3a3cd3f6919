// Recorded steps: the same bits as steps run op by op, whether sizes stay or change.
#include <gtest/gtest.h>

#include "cuda/training/card_fixture.h"
#include "data/batches/synthetic.h"
#include "support/reference_case.h"

namespace snug {
namespace {

// Lengths of the steps: the same until a graph is recorded and replayed, then others in between.
constexpr std::array<int64_t, 14> kLengths = {9, 9, 9, 9, 9, 7, 9, 7, 7, 7, 7, 9, 5, 7};

std::vector<double> losses(const Recipe& recipe, bool graphs) {
  CardFixture fixture(recipe, {}, graphs);
  std::vector<double> values;
  for (size_t step = 0; step < kLengths.size(); ++step) {
    Batch batch = random_batch({2, kLengths[step], fixture.spec.vocabulary}, step);
    StepResult result =
        fixture.runner.run_step({batch}, static_cast<int64_t>(step), static_cast<int64_t>(kLengths.size()));
    values.push_back(result.loss);
    values.push_back(result.gradient_norm);
  }
  return values;
}

TEST(CudaGraphs, ChangeNoBit) {
  SKIP_WITHOUT_CARD();
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.training.learning_rate = 1e-2;
  recipe.training.per_device_train_batch_size = 2;
  recipe.data.max_length = 9;
  std::vector<double> plain = losses(recipe, false);
  EXPECT_NE(plain.front(), plain[2]);
  EXPECT_EQ(losses(recipe, true), plain);
}

}  // namespace
}  // namespace snug
