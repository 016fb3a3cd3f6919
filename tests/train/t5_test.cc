// What a model with an encoder must keep beyond Hugging Face's numbers: planned memory, recomputation,
// splits, and what it refuses.
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/batches/limits.h"
#include "data/batches/synthetic.h"
#include "support/model_rounding.h"
#include "support/temporary_folder.h"
#include "support/watched_backend.h"
#include "train/adapter_files.h"
#include "train/generator.h"
#include "train/output.h"

namespace snug {
namespace {

Recipe t5_recipe(bool lora, double dropout = 0) {
  Recipe recipe = reference_recipe(reference_folder("t5_few_buckets"));
  recipe.model.dropout = dropout;
  recipe.data.max_length = 15;
  recipe.data.max_target_length = 6;
  recipe.training.learning_rate = 1e-2;
  recipe.training.adam_epsilon = 1e-3;  // an update in proportion to the gradient, not its sign alone
  if (lora) {
    recipe.lora = LoraSection{.r = 4, .lora_dropout = 0.2};
  }
  return recipe;
}

TEST(EncoderDecoder, PlannedIsAllocatedIsWritten) {
  for (auto [lora, dropout] : {std::pair{false, 0.0}, {true, 0.0}, {false, 0.1}, {true, 0.1}}) {
    TemporaryFolder folder;
    Recipe recipe = t5_recipe(lora, dropout);
    FixtureOn<WatchedBackend> fixture(recipe, {});
    Batch batch = random_batch({4, 6, fixture.spec.vocabulary, 15}, 1);
    fixture.runner.run_step({batch}, 0, 10);
    std::vector<Example> examples;
    for (uint64_t i = 0; i < 4; ++i) {
      examples.push_back(random_example({1, 6, fixture.spec.vocabulary, 15}, i));
    }
    fixture.runner.evaluate(make_dataset(examples), planned_batch(fixture.plan, kEvaluatePhase));
    if (lora) {
      save_adapter(fixture.reader, recipe, fixture.spec, folder.path());
    } else {
      save_model(fixture.reader, recipe.model.path, folder.path());
    }
    EXPECT_EQ(fixture.executor.allocated_bytes(), fixture.plan.all_bytes());
    EXPECT_EQ(fixture.backend.problems(), std::vector<std::string>());
    EXPECT_EQ(differences_from(fixture.plan, fixture.backend.written()), std::vector<std::string>());
  }
}

TEST(EncoderDecoder, LengthsArePlannedApart) {
  auto planned = [](int64_t source, int64_t target) {
    Recipe recipe = t5_recipe(false);
    recipe.data.max_length = source;
    recipe.data.max_target_length = target;
    CpuBackend backend;
    return plan_training(recipe, locate_model(recipe.model.path).spec, backend).device_bytes();
  };
  EXPECT_GT(planned(64, 8), planned(32, 8));
  EXPECT_GT(planned(64, 16), planned(64, 8));
  EXPECT_EQ(planned(64, 0), planned(64, 64));
}

std::vector<double> losses(const Recipe& recipe, int64_t split) {
  TrainFixture fixture(recipe);
  std::vector<double> values;
  for (int64_t step = 0; step < 4; ++step) {
    std::vector<Example> made;
    for (int64_t i = 0; i < 4; ++i) {
      auto seed = static_cast<uint64_t>(10 * step + i);
      made.push_back(random_example({1, 2 + i, fixture.spec.vocabulary, 14 - 4 * i}, seed));
    }
    Dataset dataset = make_dataset(made);
    std::vector<Batch> micro_batches;
    for (int64_t first = 0; first < 4; first += split) {
      std::vector<int64_t> examples;
      for (int64_t i = first; i < first + split; ++i) {
        examples.push_back(i);
      }
      micro_batches.push_back(make_batch(dataset, examples));
    }
    values.push_back(fixture.runner.run_step(micro_batches, step, 4).loss);
  }
  return values;
}

TEST(EncoderDecoder, RecomputationChangesNoBit) {
  for (auto [lora, dropout] : {std::pair{false, 0.0}, {true, 0.0}, {false, 0.1}, {true, 0.1}}) {
    Recipe recipe = t5_recipe(lora, dropout);
    std::vector<double> kept = losses(recipe, 4);
    EXPECT_NE(kept.back(), kept.front());
    for (const std::vector<Recompute>& policies :
         {std::vector{Recompute::selective}, std::vector{Recompute::full},
          // One a layer: two of the encoder, two of the decoder.
          std::vector{Recompute::full, Recompute::none, Recompute::selective, Recompute::full},
          std::vector{Recompute{LayerValues{}.with(LayerValue::attention).with(LayerValue::gate_up)}},
          std::vector{Recompute{LayerValues{}.with(LayerValue::sum)}, Recompute::none,
                      Recompute{LayerValues{}.with(LayerValue::qkv).with(LayerValue::dropout)},
                      Recompute::none}}) {
      recipe.memory.recompute = policies;
      EXPECT_EQ(losses(recipe, 4), kept);
    }
  }
}

// With dropout in the adapters of both stacks, and everywhere in the model: masks follow the token, not the
// micro-batch.
TEST(EncoderDecoder, SplittingIntoMicroBatchesChangesNothing) {
  for (auto [lora, dropout] : {std::pair{false, 0.0}, {true, 0.0}, {false, 0.1}, {true, 0.1}}) {
    Recipe recipe = t5_recipe(lora, dropout);
    recipe.training.adam_epsilon = 1;  // gradient descent: what rounding does to a gradient does not grow
    std::vector<double> whole = losses(recipe, 4);
    double error = product_error(locate_model(t5_recipe(lora).model.path).spec, 4 * 17);
    for (int64_t split : {2, 1}) {
      std::vector<double> parts = losses(recipe, split);
      for (size_t step = 0; step < whole.size(); ++step) {
        // Its own rounding, and that of each update before it.
        double tolerance = static_cast<double>(step + 1) * error * whole[step];
        EXPECT_NEAR(parts[step], whole[step], tolerance) << "lora " << lora << ", split " << split;
      }
    }
  }
}

TEST(EncoderDecoder, GenerationWritesWhatItPlanned) {
  std::filesystem::path folder = reference_folder("t5_uneven_stacks");
  WatchedBackend backend;
  GenerationOptions sizes{
      .dtype = DType::f32, .max_source_tokens = 9, .max_prompt_tokens = 1, .max_total_tokens = 12};
  Plan plan = make_plan(compile_generation(locate_model(folder.string()).spec, sizes), backend,
                        backend.device_total_bytes());
  Executor executor(plan, backend);
  load_constants(executor);
  load_tensors(executor, Role::base_weights, open_tensors(folder));
  SamplingOptions options;
  options.max_new_tokens = 12;  // the last one is not cached
  Prompt prompt{{0}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  std::vector<int32_t> first = generate(executor, prompt, options);
  EXPECT_EQ(executor.allocated_bytes(), plan.device_bytes());
  EXPECT_EQ(backend.problems(), std::vector<std::string>());
  EXPECT_EQ(differences_from(plan, backend.written()), std::vector<std::string>());
  // What the encoder kept of one source is gone with the next.
  generate(executor, {{0}, {9, 8, 7}}, options);
  EXPECT_EQ(generate(executor, prompt, options), first);
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(EncoderDecoder, RefusesHalfPrecision) {
  Recipe recipe = t5_recipe(false);
  recipe.model.dtype = DType::f16;
  CpuBackend backend;
  std::string message =
      error_of([&] { plan_training(recipe, locate_model(recipe.model.path).spec, backend); });
  EXPECT_NE(message.find("fp16"), std::string::npos) << message;
  EXPECT_NE(message.find("bf16"), std::string::npos) << message;
}

std::string error_with(const char* key, const Json& value) {
  Json config = read_json(reference_folder("t5_few_buckets") / "config.json");
  config[key] = value;
  return error_of([&] { parse_model_config(config.dump(), "config.json"); });
}

TEST(EncoderDecoder, RefusesTheFirstT5AndNonsense) {
  EXPECT_EQ(error_with("vocab_size", 67), "");
  EXPECT_NE(error_with("feed_forward_proj", "relu").find("gated-gelu"), std::string::npos);
  EXPECT_NE(error_with("tie_word_embeddings", true).find("tie_word_embeddings"), std::string::npos);
  EXPECT_NE(error_with("relative_attention_num_buckets", 3).find("buckets"), std::string::npos);
  EXPECT_NE(error_with("relative_attention_max_distance", 2).find("distance"), std::string::npos);
  EXPECT_NE(error_with("decoder_start_token_id", 67).find("vocabulary"), std::string::npos);
}

}  // namespace
}  // namespace snug
