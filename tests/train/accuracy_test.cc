// Token accuracy against transformers, on sequences that tools/make_accuracy_references.py made.
#include <gtest/gtest.h>

#include "support/train_fixture.h"

namespace snug {
namespace {

TEST(Accuracy, IsThatOfTransformers) {
  Json cases = read_json(reference_folder("accuracy.json"));
  for (const auto& [name, expected] : cases.items()) {
    Recipe recipe = reference_recipe(reference_folder(name));
    recipe.data.eval_file = {"eval.jsonl"};
    recipe.training.per_device_eval_batch_size = 2;
    TrainFixture fixture(recipe);
    std::vector<Example> examples;
    int64_t targets = 0;
    for (const Json& ids : expected["sequences"]) {
      examples.push_back(make_example(ids.get<std::vector<int32_t>>(), 0));
      targets += static_cast<int64_t>(ids.size()) - 1;
    }
    for (int round = 0; round < 2; ++round) {  // a second evaluation counts from zero
      EvaluationMetrics metrics =
          fixture.runner.evaluate(make_dataset(examples), planned_batch(fixture.plan, kEvaluatePhase));
      EXPECT_EQ(metrics.targets, targets) << name;
      EXPECT_EQ(metrics.hits, expected["hits"]) << name;
    }
  }
}

}  // namespace
}  // namespace snug
