// How far evaluation, loading and saving have come.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "data/batches/limits.h"
#include "io/json.h"
#include "support/temporary_folder.h"
#include "support/train_fixture.h"
#include "train/adapter_files.h"

namespace snug {
namespace {

using Seen = std::vector<std::pair<int64_t, int64_t>>;

Recipe small_recipe() {
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.lora = LoraSection{.r = 4};
  recipe.data.eval_file = {"evaluated.jsonl"};
  recipe.training.per_device_eval_batch_size = 2;
  return recipe;
}

Dataset dataset_of(size_t rows) {
  return make_dataset(std::vector<Example>(rows, make_example({3, 1, 4, 1, 5}, 0)));
}

constexpr BatchLimits kTwo = {.sequences = 2, .tokens = 10, .source_tokens = 0};

TEST(Progress, AnEvaluationTellsEveryBatch) {
  TrainFixture fixture(small_recipe());
  Seen seen;
  EvaluationMetrics all = fixture.runner.evaluate(dataset_of(5), kTwo, [&](int64_t done, int64_t total) {
    seen.emplace_back(done, total);
    return true;
  });
  EXPECT_TRUE(all.complete);
  EXPECT_EQ(all.targets, 5 * 4);
  EXPECT_EQ(seen, (Seen{{1, 3}, {2, 3}, {3, 3}}));
  EvaluationMetrics some =
      fixture.runner.evaluate(dataset_of(5), kTwo, [](int64_t done, int64_t) { return done < 2; });
  EXPECT_FALSE(some.complete);
  EXPECT_EQ(some.targets, 4 * 4);
}

TEST(Progress, LoadingAndSavingTellTheirBytes) {
  TemporaryFolder folder;
  TrainFixture fixture(small_recipe());
  TensorSource files = open_tensors(fixture.recipe.model.path);
  Seen loaded;
  load_tensors(fixture.executor, Role::base_weights, files,
               [&](int64_t done, int64_t total) { loaded.emplace_back(done, total); });
  ASSERT_FALSE(loaded.empty());
  EXPECT_EQ(loaded.back(), std::pair(files.stored_bytes(), files.stored_bytes()));
  Seen saved;
  save_adapter(fixture.reader, fixture.recipe, fixture.spec, folder.path(),
               [&](int64_t done, int64_t total) { saved.emplace_back(done, total); });
  ASSERT_GT(saved.size(), 1U);
  int64_t written = open_tensors(folder.path() / "adapter_model.safetensors").stored_bytes();
  EXPECT_EQ(saved.back(), std::pair(written, written));
  for (size_t i = 1; i < saved.size(); ++i) {
    EXPECT_GT(saved[i].first, saved[i - 1].first);
  }
}

}  // namespace
}  // namespace snug
