// Recipes of every kind on small models of every shape, and a run of all of their phases at full size.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "base/rng.h"
#include "data/batches/limits.h"
#include "data/batches/synthetic.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "model/locate.h"
#include "plan/training.h"
#include "program/names.h"
#include "recipe/choices.h"
#include "support/small_llama.h"
#include "support/train_fixture.h"
#include "train/adapter_files.h"
#include "train/generator.h"
#include "train/output.h"
#include "train/snapshot.h"

namespace snug {

// A folder with nothing but a config: of a small Llama, or of this one.
inline void write_config(const std::filesystem::path& folder, const Json& changes = Json::object()) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", 97},
                 {"hidden_size", 24},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 6},
                 {"intermediate_size", 40},
                 {"max_position_embeddings", 64},
                 {"attention_bias", false},
                 {"tie_word_embeddings", false}};
  config.update(changes);
  write_file_atomically(folder / "config.json", config.dump());
}

inline Json random_shape(Rng& rng) {
  auto from = [&](int64_t least, uint64_t count) { return least + static_cast<int64_t>(rng.below(count)); };
  Json shape;
  shape["vocab_size"] = from(20, 200);
  shape["num_hidden_layers"] = from(1, 4);
  int64_t kv_heads = from(1, 3);
  shape["num_key_value_heads"] = kv_heads;
  shape["num_attention_heads"] = kv_heads * from(1, 3);
  shape["head_dim"] = 2 * from(1, 6);
  shape["hidden_size"] = from(8, 40);
  shape["intermediate_size"] = from(8, 60);
  shape["tie_word_embeddings"] = rng.below(2) == 0;
  shape["attention_bias"] = rng.below(2) == 0;
  return shape;
}

// One for all layers, or something else in each.
inline std::vector<Recompute> random_policies(Rng& rng, int64_t layers) {
  if (rng.below(2) == 0) {
    return {kRecomputePolicies[rng.below(kRecomputePolicies.size())].second};
  }
  std::vector<Recompute> policies(static_cast<size_t>(layers));
  for (Recompute& policy : policies) {
    policy.kept.bits = static_cast<uint32_t>(rng.below(kAllLayerValues.bits + 1));
  }
  return policies;
}

inline Recipe random_recipe(Rng& rng, const std::filesystem::path& folder) {
  Recipe recipe = small_recipe();
  recipe.model.path = folder.string();
  recipe.model.from_scratch = true;
  recipe.model.dtype = rng.below(2) == 0 ? DType::f32 : DType::bf16;
  recipe.data.max_length = 3 + static_cast<int64_t>(rng.below(20));
  recipe.training.per_device_train_batch_size = 1 + static_cast<int64_t>(rng.below(3));
  int64_t micro_batches = 1 + static_cast<int64_t>(rng.below(3));
  if (rng.below(2) == 0) {
    recipe.training.gradient_accumulation_steps = micro_batches;
  } else {
    recipe.training.gradient_accumulation_steps.reset();
    recipe.training.effective_batch_size = *recipe.training.per_device_train_batch_size * micro_batches;
  }
  recipe.training.per_device_eval_batch_size = 1 + static_cast<int64_t>(rng.below(3));
  recipe.training.optimizer_states = static_cast<OptimizerStates>(rng.below(3));
  recipe.memory.recompute = random_policies(rng, locate_model(folder.string()).spec.all_layers());
  if (rng.below(2) == 0) {
    recipe.lora = LoraSection{.r = 1 + static_cast<int64_t>(rng.below(6)), .lora_dropout = 0.1};
    recipe.model.quantization = static_cast<Quantization>(rng.below(5));
  }
  recipe.training.eval_max_new_tokens = static_cast<int64_t>(rng.below(4));
  bool may_be_adafactor = recipe.training.optimizer_states != OptimizerStates::eight_bits;
  if (may_be_adafactor && rng.below(2) == 0) {
    recipe.training.optim = Optimizer::adafactor;
  }
  if (!recipe.lora && recipe.model.dtype == DType::bf16 && rng.below(2) == 0) {
    recipe.training.gradient_dtype = DType::bf16;
  }
  return recipe;
}

// Runs every phase of a recipe once, at its full size.
template <typename Backend>
void run_all_phases(FixtureOn<Backend>& fixture, const std::filesystem::path& folder) {
  const Recipe& recipe = fixture.recipe;
  int64_t length = recipe.data.max_length;
  int64_t vocabulary = fixture.spec.vocabulary;
  Batch batch = random_batch({recipe.training.per_device_train_batch_size.value(), length, vocabulary}, 1);
  BatchLimits most = planned_batch(fixture.plan, kTrainPhase);
  EXPECT_EQ(batch.tokens(), most.tokens);
  Batch short_ones = random_batch({most.sequences, most.tokens / most.sequences, vocabulary}, 2);
  fixture.runner.run_step({batch, short_ones}, 0, 10);
  std::vector<Example> examples;
  for (int64_t i = 0; i < recipe.training.per_device_eval_batch_size.value(); ++i) {
    examples.push_back(random_example({1, length, vocabulary}, static_cast<uint64_t>(i)));
  }
  most = planned_batch(fixture.plan, kEvaluatePhase);
  fixture.runner.evaluate(make_dataset(examples), most);
  std::vector<Example> many(static_cast<size_t>(most.sequences), random_example({1, 2, vocabulary}, 3));
  fixture.runner.evaluate(make_dataset(many), most);
  if (recipe.training.eval_max_new_tokens > 0) {
    const Prompt prompt{std::vector<int32_t>(static_cast<size_t>(length), 1)};
    SamplingOptions options;
    options.max_new_tokens = recipe.training.eval_max_new_tokens;
    generate(fixture.executor, prompt, options);
  }
  Snapshot(fixture.executor).take();
  if (recipe.lora) {
    save_adapter(fixture.reader, recipe, fixture.spec, folder);
  } else {
    save_model(fixture.reader, recipe.model.path, folder);
  }
}

}  // namespace snug
