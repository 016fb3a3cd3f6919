// The sums of a step's gradients: they begin with its first micro-batch, whatever was there before.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/batches/synthetic.h"
#include "support/train_fixture.h"

namespace snug {
namespace {

std::vector<std::vector<std::byte>> gradients_of(TrainFixture& fixture, const std::vector<Batch>& batches) {
  fixture.runner.accumulate_gradients(batches, 0);
  std::vector<std::vector<std::byte>> all;
  for (const Buffer& buffer : fixture.plan.phase(kTrainPhase).program.buffers) {
    if (buffer.role == Role::gradients) {
      fixture.executor.read(kTrainPhase, buffer.name,
                            all.emplace_back(static_cast<size_t>(buffer.max_bytes())));
    }
  }
  return all;
}

// NaN in every format.
void spoil_gradients(TrainFixture& fixture) {
  for (const Buffer& buffer : fixture.plan.phase(kTrainPhase).program.buffers) {
    if (buffer.role == Role::gradients) {
      std::vector<std::byte> bytes(static_cast<size_t>(buffer.max_bytes()), std::byte{0xff});
      fixture.executor.write(kTrainPhase, buffer.name, bytes);
    }
  }
}

void expect_fresh_sums(Recipe recipe) {
  SCOPED_TRACE(recipe.model.path);
  recipe.data.max_length = 8;
  TrainFixture fixture(recipe);
  auto batch = [&](uint64_t seed) {
    return random_batch({2, 7, fixture.spec.vocabulary, fixture.spec.has_encoder() ? 5 : 0}, seed);
  };
  std::vector<Batch> batches = {batch(1), batch(2), batch(3)};
  std::vector<std::vector<std::byte>> wanted = gradients_of(fixture, batches);
  ASSERT_FALSE(wanted.empty());
  spoil_gradients(fixture);
  EXPECT_EQ(gradients_of(fixture, batches), wanted);
  std::reverse(batches.begin(), batches.end());  // the later ones are added: all of them matter
  batches.pop_back();
  EXPECT_NE(gradients_of(fixture, batches), wanted);
}

TEST(GradientSums, BeginWithTheFirstMicroBatch) {
  for (const char* name : {"gqa_untied", "qwen2_tied", "qwen3_head_norms", "llama_biases", "t5_tied_head"}) {
    Recipe recipe = reference_recipe(reference_folder(name));
    for (DType dtype : {DType::f32, DType::bf16}) {
      recipe.model.dtype = dtype;
      expect_fresh_sums(recipe);
    }
  }
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.lora = LoraSection{.r = 4};
  expect_fresh_sums(recipe);
}

}  // namespace
}  // namespace snug
