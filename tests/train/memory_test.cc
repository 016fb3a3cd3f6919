// The plan is the program's memory: planned bytes = allocated bytes = written bytes, in every phase; and what
// saves memory changes no result.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/rng.h"
#include "data/batches/limits.h"
#include "data/batches/sequence.h"
#include "data/batches/synthetic.h"
#include "plan/training.h"
#include "program/names.h"
#include "recipe/choices.h"
#include "support/model_rounding.h"
#include "support/random_recipes.h"
#include "support/small_llama.h"
#include "support/temporary_folder.h"
#include "support/watched_backend.h"
#include "train/adapter_files.h"
#include "train/generator.h"
#include "train/output.h"
#include "train/snapshot.h"

namespace snug {
namespace {

void expect_planned_is_used(uint64_t seed, int rounds) {
  Rng rng(seed);
  for (int round = 0; round < rounds; ++round) {
    TemporaryFolder folder;
    write_config(folder.path(), random_shape(rng));
    FixtureOn<WatchedBackend> fixture(random_recipe(rng, folder.path()), {});
    int64_t planned = fixture.plan.all_bytes();
    EXPECT_EQ(fixture.executor.allocated_bytes(), planned);
    run_all_phases(fixture, folder.path());
    EXPECT_EQ(fixture.executor.allocated_bytes(), planned);
    EXPECT_EQ(fixture.executor.announced_bytes(), planned) << "round " << round;
    EXPECT_EQ(fixture.backend.problems(), std::vector<std::string>()) << "round " << round;
    EXPECT_EQ(differences_from(fixture.plan, fixture.backend.written()), std::vector<std::string>())
        << "round " << round;
  }
}

TEST(Memory, PlannedIsAllocatedIsWrittenInEveryPhase) {
  expect_planned_is_used(2024, 25);
}

TEST(Memory, SlowPlannedIsUsedOfThreeHundredRecipes) {
  expect_planned_is_used(1, 300);
}

TEST(Memory, GenerationWritesWhatItPlanned) {
  std::filesystem::path folder = reference_folder("gqa_untied");
  ModelSpec spec = locate_model(folder.string()).spec;
  WatchedBackend backend;
  Plan plan = make_plan(
      compile_generation(spec, {.dtype = DType::f32, .max_prompt_tokens = 5, .max_total_tokens = 12}),
      backend, backend.device_total_bytes());
  Executor executor(plan, backend);
  load_constants(executor);
  load_tensors(executor, Role::base_weights, open_tensors(folder));
  const Prompt prompt{{1, 2, 3, 4, 5}};
  SamplingOptions options;
  options.max_new_tokens = 8;  // the last one is not cached
  generate(executor, prompt, options);
  EXPECT_EQ(executor.allocated_bytes(), plan.device_bytes());
  EXPECT_EQ(backend.problems(), std::vector<std::string>());
  EXPECT_EQ(differences_from(plan, backend.written()), std::vector<std::string>());
}

std::vector<double> losses_with(const Recipe& recipe, const std::vector<std::vector<Batch>>& steps) {
  TrainFixture fixture(recipe);
  std::vector<double> losses;
  for (size_t step = 0; step < steps.size(); ++step) {
    losses.push_back(
        fixture.runner.run_step(steps[step], static_cast<int64_t>(step), static_cast<int64_t>(steps.size()))
            .loss);
  }
  return losses;
}

// With dropout in attention, and in the adapters.
Recipe equality_recipe(const std::filesystem::path& folder, bool lora, DType dtype) {
  Recipe recipe = small_recipe();
  recipe.model.path = folder.string();
  recipe.model.from_scratch = true;
  recipe.model.dtype = dtype;
  recipe.model.dropout = 0.1;
  recipe.training.learning_rate = 1e-2;
  recipe.training.lr_scheduler_type = Schedule::constant;
  recipe.training.per_device_train_batch_size = 8;
  if (lora) {
    recipe.lora = LoraSection{.r = 4, .lora_dropout = 0.2};
  }
  return recipe;
}

Recompute keeping(std::initializer_list<LayerValue> values) {
  Recompute policy;
  for (LayerValue value : values) {
    policy.kept = policy.kept.with(value);
  }
  return policy;
}

TEST(Memory, RecomputationChangesNoBit) {
  TemporaryFolder folder;
  write_config(folder.path());
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (bool lora : {false, true}) {
      Recipe recipe = equality_recipe(folder.path(), lora, dtype);
      std::vector<std::vector<Batch>> steps;
      for (uint64_t step = 0; step < 4; ++step) {
        steps.push_back({random_batch({8, 13, 97}, step)});
      }
      recipe.memory.recompute = {Recompute::none};
      std::vector<double> kept = losses_with(recipe, steps);
      EXPECT_NE(kept.front(), kept.back());
      for (const std::vector<Recompute>& policies :
           {std::vector{Recompute::selective}, std::vector{Recompute::full},
            std::vector{Recompute::full, Recompute::none, Recompute::selective},
            std::vector{keeping({LayerValue::qkv, LayerValue::gate_up})},
            std::vector{keeping({LayerValue::attention}), keeping({LayerValue::sum, LayerValue::lora}),
                        keeping({LayerValue::rotated, LayerValue::gated, LayerValue::dropout})}}) {
        recipe.memory.recompute = policies;
        EXPECT_EQ(losses_with(recipe, steps), kept);
      }
    }
  }
}

std::vector<std::vector<Batch>> steps_of(const Dataset& dataset, const Recipe& recipe) {
  BatchLimits planned = DataLimits(recipe, dataset, {})(recipe).train;
  BatchSequence sequence(dataset, training_batches(recipe, dataset, planned));
  std::vector<std::vector<Batch>> steps;
  for (std::vector<Batch> step = sequence.next_step(); !step.empty(); step = sequence.next_step()) {
    steps.push_back(std::move(step));
  }
  return steps;
}

// However many tokens are planned: the same sequences in the same steps with the same masks.
TEST(Memory, AnotherCutOfAStepChangesRoundingAlone) {
  TemporaryFolder folder;
  write_config(folder.path());
  std::vector<Example> examples;
  for (uint64_t i = 0; i < 32; ++i) {  // different lengths: micro-batches have different numbers of targets
    examples.push_back(random_example({1, 3 + static_cast<int64_t>(i % 8) * 2, 97}, i));
  }
  Dataset dataset = make_dataset(examples);
  for (bool lora : {false, true}) {
    std::vector<double> expected;
    std::set<size_t> counts;
    for (int64_t tokens : {160, 61, 40, 17, 1}) {
      Recipe recipe = equality_recipe(folder.path(), lora, DType::f32);
      recipe.training.num_train_epochs = 1;
      recipe.memory.micro_batch_tokens = tokens;
      std::vector<std::vector<Batch>> steps = steps_of(dataset, recipe);
      ASSERT_EQ(steps.size(), 4U);
      counts.insert(steps.front().size());
      std::vector<double> losses = losses_with(recipe, steps);
      expected = expected.empty() ? losses : expected;
      double error = product_error(locate_model(folder.path().string()).spec, 8 * 17);
      for (size_t step = 0; step < losses.size(); ++step) {
        EXPECT_NEAR(losses[step], expected[step], error * expected[step]) << tokens << ", lora " << lora;
      }
    }
    EXPECT_GE(counts.size(), 4U) << "the cuts differ";
  }
}

// With packs too: the same packs, steps and dropout masks, so the same losses but for the order of sums.
TEST(Memory, SplittingPacksChangesNothing) {
  TemporaryFolder folder;
  write_config(folder.path());
  std::vector<Example> examples;
  for (uint64_t i = 0; i < 90; ++i) {
    examples.push_back(random_example({1, 3 + static_cast<int64_t>(i * 7 % 17), 97}, i));
  }
  Dataset dataset = make_dataset(examples);
  std::vector<double> expected;
  for (auto [size, accumulation] : {std::pair{8, 1}, {4, 2}, {2, 4}, {1, 8}}) {
    Recipe recipe = equality_recipe(folder.path(), true, DType::f32);
    recipe.data.packing = true;
    recipe.training.num_train_epochs = 1;
    recipe.training.per_device_train_batch_size = size;
    recipe.training.gradient_accumulation_steps = accumulation;
    std::vector<double> losses = losses_with(recipe, steps_of(dataset, recipe));
    expected = expected.empty() ? losses : expected;
    ASSERT_EQ(losses.size(), expected.size()) << size << " × " << accumulation;
    for (size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(losses[step], expected[step], 1e-6 * expected[step]) << size << " × " << accumulation;
    }
  }
  EXPECT_GE(expected.size(), 6U);
}

// Chunks change the order of sums, and nothing else: not to the bit, but to rounding.
TEST(Memory, LossChunksChangeRoundingAlone) {
  TemporaryFolder folder;
  write_config(folder.path());
  Recipe recipe = equality_recipe(folder.path(), false, DType::f32);
  std::vector<std::vector<Batch>> steps;
  for (uint64_t step = 0; step < 4; ++step) {
    steps.push_back({random_batch({8, 20, 97}, step)});
  }
  std::vector<double> whole = losses_with(recipe, steps);
  for (int64_t chunk : {1, 7, 64, 160}) {
    recipe.memory.loss_chunk_tokens = chunk;
    std::vector<double> losses = losses_with(recipe, steps);
    for (size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(losses[step], whole[step], 1e-6 * whole[step]) << "chunks of " << chunk;
    }
  }
}

TEST(Memory, SameSeedSameBits) {
  TemporaryFolder folder;
  write_config(folder.path());
  Recipe recipe = equality_recipe(folder.path(), true, DType::f32);
  std::vector<std::vector<Batch>> steps = {{random_batch({8, 20, 97}, 1)}, {random_batch({8, 20, 97}, 2)}};
  EXPECT_EQ(losses_with(recipe, steps), losses_with(recipe, steps));
}

}  // namespace
}  // namespace snug
