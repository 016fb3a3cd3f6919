// The model's own dropout where Hugging Face has it, and nowhere but in training.
#include <gtest/gtest.h>

#include "data/batches/limits.h"
#include "data/batches/synthetic.h"
#include "support/dropout_case.h"
#include "support/train_fixture.h"

namespace snug {
namespace {

class ModelDropout : public testing::TestWithParam<std::string> {};

// In one micro-batch and in several.
TEST_P(ModelDropout, LossAndEveryGradientAreThoseOfHuggingFace) {
  constexpr double kNoise = 0x1p-12;  // far above rounding, and small enough for a straight line
  DropoutCase c(GetParam());
  Shaken shaken(c.recipe, {}, kNoise, [&](TrainFixture& fixture) { return c.run(fixture, c.whole()); });
  TrainFixture fixture(c.recipe);
  NamedResults in_two = c.run(fixture, c.in_two());
  double error = product_error(fixture.spec, std::ssize(c.whole()[0].ids));
  for (const auto& [name, wanted] : c.wanted) {
    // The sum itself, and what became of the errors of all sums before it.
    double tolerance = error * (1 + shaken.response.at(name) / kNoise);
    EXPECT_LE(relative_difference(shaken.results.at(name), wanted), tolerance) << name;
    EXPECT_LE(relative_difference(in_two.at(name), wanted), tolerance) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(References, ModelDropout, testing::ValuesIn(reference_cases_with("dropout.json")),
                         [](const auto& one) { return one.param; });

Recipe t5_recipe(std::optional<double> dropout) {
  Recipe recipe = reference_recipe(reference_folder("t5_few_buckets"));
  recipe.model.dropout = dropout;
  return recipe;
}

TEST(Dropout, EvaluationHasNone) {
  auto evaluated = [](double dropout) {
    TrainFixture fixture(t5_recipe(dropout));
    std::vector<Example> examples;
    for (uint64_t i = 0; i < 3; ++i) {
      examples.push_back(random_example({1, 6, fixture.spec.vocabulary, 15}, i));
    }
    return fixture.runner.evaluate(make_dataset(examples), planned_batch(fixture.plan, kEvaluatePhase)).loss;
  };
  EXPECT_EQ(evaluated(0.5), evaluated(0));
}

TEST(Dropout, ComesFromTheConfigUnlessTheRecipeSaysOtherwise) {
  auto loss = [](std::optional<double> dropout) {
    TrainFixture fixture(t5_recipe(dropout));
    return fixture.runner.accumulate_gradients({random_batch({3, 6, fixture.spec.vocabulary, 15}, 1)}, 0);
  };
  EXPECT_EQ(loss(std::nullopt), loss(0.1));  // the file says 0.1
  EXPECT_NE(loss(std::nullopt), loss(0));
  EXPECT_NE(loss(std::nullopt), loss(0.2));
}

TEST(Dropout, EachStepAndSeedHasItsOwnMasks) {
  Recipe recipe = t5_recipe(0.3);
  TrainFixture fixture(recipe);
  Batch batch = random_batch({3, 6, fixture.spec.vocabulary, 15}, 1);
  double first = fixture.runner.accumulate_gradients({batch}, 0);
  EXPECT_EQ(first, fixture.runner.accumulate_gradients({batch}, 0));
  EXPECT_NE(first, fixture.runner.accumulate_gradients({batch}, 1));
  recipe.training.seed += 1;
  TrainFixture other(recipe);
  EXPECT_NE(first, other.runner.accumulate_gradients({batch}, 0));
}

// No mask and no second copy of anything is kept for the backward pass.
TEST(Dropout, KeepsNothingMore) {
  for (Recompute policy : {Recompute::none, Recompute::selective, Recompute::full}) {
    auto kept = [&](double dropout) {
      Recipe recipe = t5_recipe(dropout);
      recipe.memory.recompute = {policy};
      CpuBackend backend;
      Plan plan = plan_training(recipe, locate_model(recipe.model.path).spec, backend);
      int64_t bytes = 0;
      for (const Buffer& buffer : plan.phase(kTrainPhase).program.buffers) {
        bytes += buffer.role == Role::kept_activations ? buffer.max_bytes() : 0;
      }
      return bytes;
    };
    EXPECT_EQ(kept(0.1), kept(0));
  }
}

}  // namespace
}  // namespace snug
