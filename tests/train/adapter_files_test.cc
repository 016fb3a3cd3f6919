// PEFT's folders: what is refused by name, what is left over, and what comes back as it was written.
#include "train/adapter_files.h"
#include "support/watched_backend.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temporary_folder.h"
#include "support/train_fixture.h"

namespace snug {
namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

// The settings of a case that PEFT has written, with one key changed.
std::string error_with(const std::string& key, const Json& value) {
  TemporaryFolder folder;
  Json config = read_json(reference_folder("lora") / "initial_adapter/adapter_config.json");
  config[key] = value;
  write_file_atomically(folder / "adapter_config.json", config.dump());
  return error_of([&] { read_adapter_config(folder.path()); });
}

TEST(AdapterConfig, RefusesByNameWhatItDoesNotKnow) {
  const std::vector<std::pair<std::string, Json>> unknown = {
      {"trainable_token_indices", {1, 2}},
      {"init_lora_weights", "pissa"},
      {"init_lora_weights", "pissa_niter_16"},
      {"init_lora_weights", "olora"},
      {"init_lora_weights", "loftq"},
      {"init_lora_weights", "corda"},
      {"alora_invocation_tokens", {5}},
      {"layer_replication", Json::array({Json::array({0, 2})})},
      {"layers_to_transform", {0}},
      {"modules_to_save", {"lm_head"}},
      {"use_dora", true},
      {"use_qalora", true},
      {"lora_bias", true},
      {"fan_in_fan_out", true},
      {"target_parameters", {"weight"}},
      {"kasa_config", {{"beta", 1e-4}}},
      {"megatron_core", "another"},
      {"a_key_of_tomorrow", "on"}};
  for (const auto& [key, value] : unknown) {
    EXPECT_NE(error_with(key, value).find(key), std::string::npos) << key;
  }
}

TEST(AdapterConfig, AcceptsWhatChangesNothing) {
  const std::vector<std::pair<std::string, Json>> plain = {{"init_lora_weights", false},
                                                           {"init_lora_weights", "gaussian"},
                                                           {"a_key_of_tomorrow", nullptr},
                                                           {"a_key_of_tomorrow", false},
                                                           {"base_model_name_or_path", "anything"},
                                                           {"megatron_core", "megatron.core"},
                                                           {"qalora_group_size", 16},
                                                           {"lora_dropout", 0.1}};
  for (const auto& [key, value] : plain) {
    EXPECT_EQ(error_with(key, value), "") << key;
  }
}

TEST(AdapterConfig, RefusesNonsense) {
  EXPECT_NE(error_with("bias", "some").find("lora_only"), std::string::npos);
  EXPECT_NE(error_with("r", 0).find("\"r\""), std::string::npos);
  EXPECT_NE(error_with("rank_pattern", {{"q_proj", 0}}).find("q_proj"), std::string::npos);
  EXPECT_NE(error_with("rank_pattern", {1}).find("rank_pattern"), std::string::npos);
  EXPECT_NE(error_with("target_modules", nullptr).find("target_modules"), std::string::npos);
  EXPECT_NE(error_with("exclude_modules", 3).find("exclude_modules"), std::string::npos);
}

TEST(AdapterFiles, RefusesTensorsThatNobodyAsksFor) {
  std::filesystem::path folder = reference_folder("lora");
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.lora = read_adapter_config(folder / "initial_adapter");
  recipe.lora->target_modules = {"q_proj"};
  std::string message = error_of([&] { TrainFixture fixture(recipe, folder / "initial_adapter"); });
  EXPECT_NE(message.find("down_proj.lora_A"), std::string::npos) << message;
}

Recipe recipe_with_everything() {
  Recipe recipe = reference_recipe(reference_folder("llama_biases"));
  recipe.training.learning_rate = 1e-2;
  recipe.lora = LoraSection{.r = 4,
                            .target_modules = {"all-linear"},
                            .exclude_modules = {"up_proj"},
                            .rank_pattern = {{"q_proj", 2}, {".*mlp.*", 3}},
                            .alpha_pattern = {{"k_proj", 5}},
                            .bias = LoraBias::all};
  return recipe;
}

// Trained for a step, saved, and read again: the settings and every number are the same.
TEST(AdapterFiles, ComeBackAsTheyWereSaved) {
  TemporaryFolder folder;
  Recipe recipe = recipe_with_everything();
  TrainFixture trained(recipe);
  Json batch = read_json(reference_folder("llama_biases") / "batch.json");
  trained.runner.run_step({whole_batch(batch["sequences"])}, 0, 10);
  save_adapter(trained.reader, recipe, trained.spec, folder.path());

  LoraSection lora = read_adapter_config(folder.path());
  EXPECT_EQ(lora.rank_pattern, recipe.lora->rank_pattern);
  EXPECT_EQ(lora.alpha_pattern, recipe.lora->alpha_pattern);
  EXPECT_EQ(lora.exclude_modules, recipe.lora->exclude_modules);
  EXPECT_EQ(lora.bias, LoraBias::all);
  recipe.lora = lora;
  TrainFixture again(recipe, folder.path());
  for (const StoredTensor& tensor : stored_tensors(trained.plan, Role::adapters, true)) {
    EXPECT_EQ(again.tensor(Role::adapters, tensor.name), trained.tensor(Role::adapters, tensor.name));
  }
  const std::string bias = "model.layers.0.mlp.up_proj.bias";  // of a layer without an adapter
  EXPECT_EQ(again.tensor(Role::base_weights, bias), trained.tensor(Role::base_weights, bias));
  TensorSource base = open_tensors(recipe.model.path);
  EXPECT_NE(again.tensor(Role::base_weights, bias), values_of(base.find(bias)));
  const std::string weight = "model.layers.0.mlp.up_proj.weight";
  EXPECT_EQ(again.tensor(Role::base_weights, weight), values_of(base.find(weight)));
}

TEST(AdapterFiles, BiasesOfAdaptedLayersCannotBeTornApart) {
  Recipe recipe = recipe_with_everything();
  recipe.lora->bias = LoraBias::lora_only;
  std::string message = error_of([&] { TrainFixture fixture(recipe); });
  EXPECT_NE(message.find("lora_only"), std::string::npos) << message;
  recipe.lora->exclude_modules.clear();
  EXPECT_EQ(error_of([&] { TrainFixture fixture(recipe); }), "");
}

TEST(AdapterFiles, KernelsKeepTheirWord) {
  Recipe recipe = recipe_with_everything();
  recipe.lora->lora_dropout = 0.1;
  FixtureOn<WatchedBackend> fixture(recipe, {});
  Json batch = read_json(reference_folder("llama_biases") / "batch.json");
  fixture.runner.run_step({whole_batch(batch["sequences"])}, 0, 10);
  EXPECT_EQ(fixture.executor.allocated_bytes(), fixture.plan.all_bytes());
  EXPECT_EQ(fixture.backend.problems(), std::vector<std::string>());
}

}  // namespace
}  // namespace snug
