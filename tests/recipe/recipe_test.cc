// Reading recipes into the struct, overriding keys, writing them back, and the generated reference.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/atomic_file.h"
#include "recipe/keys.h"
#include "recipe/parse.h"
#include "recipe/reference.h"
#include "recipe/write.h"
#include "support/temporary_folder.h"
#include "test_paths.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSmallest = "model: {path: tiny}\ndata: {train_file: train.jsonl}\n";

// No value is the default, so that a key that is not read shows.
constexpr std::string_view kEveryKey = R"(# every key
extends: null
stages: null
model:
  path: org/name
  dtype: bf16
  quantization: nf4_double
  dropout: 0.15
  from_scratch: true
  max_positions: 4096
lora:
  r: 32
  lora_alpha: 64.5
  lora_dropout: 0.05
  target_modules:
    - q_proj
    - layers.0.mlp.down_proj
  exclude_modules: layers.1.self_attn.q_proj
  rank_pattern: {q_proj: 4}
  alpha_pattern: {q_proj: 1.5}
  bias: lora_only
  use_rslora: true
  start: runs/earlier
data:
  train_file: train.jsonl
  eval_file: sub/eval.jsonl
  eval_split: 0
  split_seed: 5
  prompt_template: null
  completion_column: null
  system_column: null
  packing: true
  cache_dir: tokens
  format: prompt_completion
  max_length: 1024
  max_target_length: 256
  chat_template: chatml
  train_on: last_completion
  truncation: split
  truncation_side: left
  on_bad_row: skip
  max_samples: 1000
training:
  num_train_epochs: 1.5
  max_steps: 200
  effective_batch_size: 64
  per_device_train_batch_size: 4
  per_device_eval_batch_size: 2
  gradient_accumulation_steps: 16
  learning_rate: 1e-4
  lr_scheduler_type: cosine
  lr_scheduler_kwargs: {num_cycles: 0.25}
  warmup_steps: 7
  warmup_ratio: .03
  optim: adafactor
  weight_decay: 1E-2
  adam_beta1: 0.85
  adam_beta2: 0.95
  adam_epsilon: 1.0e-6
  max_grad_norm: 0
  seed: 7
  group_by_length: false
  eval_steps: 50
  eval_max_new_tokens: 32
  eval_generated_rows: 16
  validation_prompts:
    - "two\nlines"
    - {prompt: "2 + 2 =", reference: "4"}
    - {messages: [{role: system, content: Be brief.}, {role: user, content: Why so}]}
  validation_max_new_tokens: 9
  validation_temperature: 0.5
  save_strategy: minutes
  save_steps: 70
  save_minutes: 2.5
  save_total_limit: 3
  load_best_model_at_end: true
  metric_for_best_model: loss
  greater_is_better: true
  early_stopping_patience: 4
  early_stopping_threshold: 0.25
  optimizer_states: bf16
  gradient_dtype: bf16
  on_trouble: warn
memory:
  limit: 22.3GiB
  recompute: [none, selective, full]
  loss_chunk_tokens: 256
  micro_batch_tokens: 4096
logging:
  logging_steps: 1
  report_to: none
  webhooks: [{kind: slack, url_env: SLACK_URL, events: [trouble, failure]}, {kind: json, url_file: sub/url}]
  webhook_minutes: 7.5
output_dir: /runs/every key
)";

void expect_every_key(const Recipe& recipe) {
  EXPECT_EQ(recipe.model.path, "org/name");
  EXPECT_EQ(recipe.model.dtype, DType::bf16);
  EXPECT_EQ(recipe.model.quantization, Quantization::nf4_double);
  EXPECT_EQ(recipe.model.dropout, 0.15);
  EXPECT_TRUE(recipe.model.from_scratch);
  EXPECT_EQ(recipe.model.max_positions, 4096);
  ASSERT_TRUE(recipe.lora.has_value());
  EXPECT_EQ(recipe.lora->r, 32);
  EXPECT_EQ(recipe.lora->lora_alpha, 64.5);
  EXPECT_EQ(recipe.lora->lora_dropout, 0.05);
  EXPECT_EQ(recipe.lora->target_modules, (std::vector<std::string>{"q_proj", "layers.0.mlp.down_proj"}));
  EXPECT_EQ(recipe.lora->exclude_modules, std::vector<std::string>{"layers.1.self_attn.q_proj"});
  EXPECT_EQ(recipe.lora->rank_pattern, (std::vector<std::pair<std::string, int64_t>>{{"q_proj", 4}}));
  EXPECT_EQ(recipe.lora->alpha_pattern, (std::vector<std::pair<std::string, double>>{{"q_proj", 1.5}}));
  EXPECT_EQ(recipe.lora->bias, LoraBias::lora_only);
  EXPECT_TRUE(recipe.lora->use_rslora);
  EXPECT_EQ(recipe.data.train_file.at(0).path, "/recipes/train.jsonl");
  EXPECT_EQ(recipe.data.eval_file, (std::vector<std::string>{"/recipes/sub/eval.jsonl"}));
  EXPECT_EQ(recipe.data.split_seed, 5);
  EXPECT_TRUE(recipe.data.packing);
  EXPECT_EQ(recipe.data.cache_dir, "/recipes/tokens");
  EXPECT_EQ(recipe.data.format, DataFormat::prompt_completion);
  EXPECT_EQ(recipe.data.max_length, 1024);
  EXPECT_EQ(recipe.data.max_target_length, 256);
  EXPECT_EQ(recipe.data.chat_template, "chatml");
  EXPECT_EQ(recipe.data.train_on, TrainOn::last_completion);
  EXPECT_EQ(recipe.data.truncation, Truncation::split);
  EXPECT_EQ(recipe.data.truncation_side, TruncationSide::left);
  EXPECT_EQ(recipe.data.on_bad_row, OnBadRow::skip);
  EXPECT_EQ(recipe.data.max_samples, 1000);
  EXPECT_EQ(recipe.training.num_train_epochs, 1.5);
  EXPECT_EQ(recipe.training.max_steps, 200);
  EXPECT_EQ(recipe.training.effective_batch_size, 64);
  EXPECT_EQ(recipe.training.per_device_train_batch_size, 4);
  EXPECT_EQ(recipe.training.per_device_eval_batch_size, 2);
  EXPECT_EQ(recipe.training.gradient_accumulation_steps, 16);
  EXPECT_EQ(recipe.training.learning_rate, 1e-4);
  EXPECT_EQ(recipe.training.lr_scheduler_type, Schedule::cosine);
  EXPECT_EQ(recipe.training.lr_scheduler_kwargs.at("num_cycles"), 0.25);
  EXPECT_EQ(recipe.training.warmup_steps, 7);
  EXPECT_EQ(recipe.training.warmup_ratio, 0.03);
  EXPECT_EQ(recipe.training.weight_decay, 0.01);
  EXPECT_EQ(recipe.training.adam_beta1, 0.85);
  EXPECT_EQ(recipe.training.adam_beta2, 0.95);
  EXPECT_EQ(recipe.training.adam_epsilon, 1e-6);
  EXPECT_EQ(recipe.training.max_grad_norm, 0);
  EXPECT_EQ(recipe.training.seed, 7);
  EXPECT_EQ(recipe.training.eval_steps, 50);
  EXPECT_EQ(recipe.training.eval_max_new_tokens, 32);
  EXPECT_EQ(recipe.training.eval_generated_rows, 16);
  EXPECT_EQ(recipe.training.validation_prompts,
            (std::vector<ValidationPrompt>{{.prompt = "two\nlines"},
                                           {.prompt = "2 + 2 =", .reference = "4"},
                                           {.messages = {{"system", "Be brief."}, {"user", "Why so"}}}}));
  EXPECT_EQ(recipe.training.validation_max_new_tokens, 9);
  EXPECT_EQ(recipe.training.validation_temperature, 0.5);
  EXPECT_EQ(recipe.training.save_strategy, SaveStrategy::minutes);
  EXPECT_EQ(recipe.training.save_steps, 70);
  EXPECT_EQ(recipe.training.save_minutes, 2.5);
  EXPECT_EQ(recipe.training.save_total_limit, 3);
  EXPECT_TRUE(recipe.training.load_best_model_at_end);
  EXPECT_EQ(recipe.training.metric_for_best_model, "loss");
  EXPECT_EQ(recipe.training.greater_is_better, true);
  EXPECT_EQ(recipe.training.early_stopping_patience, 4);
  EXPECT_EQ(recipe.training.early_stopping_threshold, 0.25);
  EXPECT_EQ(recipe.training.optim, Optimizer::adafactor);
  EXPECT_EQ(recipe.training.optimizer_states, OptimizerStates::bf16);
  EXPECT_EQ(recipe.training.gradient_dtype, DType::bf16);
  EXPECT_EQ(recipe.memory.limit_bytes, 23944442675);  // 22.3 * 2^30, rounded
  // Written as entries, whose layers are followed by layers that keep everything.
  std::vector<Recompute> three = recipe.memory.recompute;
  three.resize(3, Recompute::none);
  EXPECT_EQ(three, (std::vector<Recompute>{Recompute::none, Recompute::selective, Recompute::full}));
  EXPECT_EQ(recipe.memory.loss_chunk_tokens, 256);
  EXPECT_EQ(recipe.memory.micro_batch_tokens, 4096);
  EXPECT_EQ(recipe.training.on_trouble, OnTrouble::warn);
  EXPECT_EQ(recipe.logging.logging_steps, 1);
  EXPECT_EQ(recipe.logging.report_to, ReportTo::none);
  EXPECT_EQ(recipe.logging.webhooks,
            (std::vector<Webhook>{{.kind = WebhookKind::slack,
                                   .url_env = "SLACK_URL",
                                   .events = {WebhookEvent::trouble, WebhookEvent::failure}},
                                  {.kind = WebhookKind::json, .url_file = "/recipes/sub/url"}}));
  EXPECT_EQ(recipe.logging.webhook_minutes, 7.5);
  EXPECT_EQ(recipe.output_dir, "/runs/every key");
}

Recipe with(const std::vector<std::string>& overrides) {
  return parse_recipe(kSmallest, "demo.yml", overrides);
}

TEST(Recipe, ReadsEveryKey) {
  Recipe recipe = parse_recipe(kEveryKey, "/recipes/demo.yml");
  EXPECT_EQ(recipe.source_path, "/recipes/demo.yml");
  expect_every_key(recipe);
  for (const RecipeKey& key : recipe_keys()) {
    EXPECT_NE(kEveryKey.find(std::string(key.leaf()) + ":"), std::string_view::npos)
        << key.name << " is missing from this test";
  }
}

TEST(Recipe, WritesWhatItReads) {
  Recipe recipe = parse_recipe(kEveryKey, "/recipes/demo.yml");
  std::string written = recipe_to_yaml(recipe);
  Recipe again = parse_recipe(written, "/elsewhere/recipe.yml");
  expect_every_key(again);
  EXPECT_EQ(recipe_to_yaml(again), written);
}

TEST(Recipe, ReadsFilesWithWeightsAndColumns) {
  Recipe recipe = parse_recipe(R"(
model: {path: tiny}
data:
  train_file:
    - a.jsonl
    - {path: sub/*.csv.gz, weight: 0.5}
  eval_file: [b.jsonl, c.jsonl]
  prompt_template: "Question: {question}\n"
  completion_column: answer
  system_column: rules
training: {group_by_length: true}
)",
                               "/recipes/demo.yml");
  auto expect_all = [](const Recipe& read) {
    EXPECT_EQ(read.data.train_file,
              (std::vector<DataFile>{{"/recipes/a.jsonl", 1}, {"/recipes/sub/*.csv.gz", 0.5}}));
    EXPECT_EQ(read.data.eval_file, (std::vector<std::string>{"/recipes/b.jsonl", "/recipes/c.jsonl"}));
    EXPECT_EQ(read.data.prompt_template, "Question: {question}\n");
    EXPECT_EQ(read.data.completion_column, "answer");
    EXPECT_EQ(read.data.system_column, "rules");
    EXPECT_TRUE(read.training.group_by_length);
  };
  expect_all(recipe);
  expect_all(parse_recipe(recipe_to_yaml(recipe), "/elsewhere/recipe.yml"));
  EXPECT_EQ(with({"data.eval_split=0.05"}).data.eval_split, 0.05);
  EXPECT_EQ(with({"data.train_file={path: x.jsonl, weight: 3}"}).data.train_file,
            (std::vector<DataFile>{{"x.jsonl", 3}}));
}

TEST(Recipe, TheSmallestRecipeHasTheDefaults) {
  Recipe recipe = with({});
  EXPECT_FALSE(recipe.lora.has_value());
  EXPECT_FALSE(recipe.model.dtype.has_value());
  EXPECT_TRUE(recipe.data.eval_file.empty());
  EXPECT_EQ(recipe.training.learning_rate, 5e-5);
  EXPECT_FALSE(recipe.memory.limit_bytes.has_value());
  EXPECT_TRUE(recipe.memory.recompute.empty());
  EXPECT_EQ(recipe.output_dir, "runs/out");
  Recipe again = parse_recipe(recipe_to_yaml(recipe), "demo.yml");
  EXPECT_FALSE(again.lora.has_value());
  EXPECT_FALSE(again.model.dtype.has_value());
  EXPECT_FALSE(again.memory.limit_bytes.has_value());
  EXPECT_TRUE(again.memory.recompute.empty());
  EXPECT_TRUE(again.data.eval_file.empty());
}

TEST(Recipe, TheLoraSectionSwitchesLoraOn) {
  std::string smallest(kSmallest);
  EXPECT_TRUE(parse_recipe(smallest + "lora: {}\n", "").lora.has_value());
  EXPECT_FALSE(parse_recipe(smallest + "lora:\n", "").lora.has_value());
  EXPECT_FALSE(parse_recipe(smallest + "lora: null\n", "").lora.has_value());
  EXPECT_FALSE(parse_recipe(smallest + "training:\nmemory: ~\n", "").lora.has_value());
}

TEST(Recipe, OverridesApplyInOrder) {
  EXPECT_EQ(with({"training.learning_rate=1e-3", "training.learning_rate=1e-4"}).training.learning_rate,
            1e-4);
  EXPECT_EQ(with({"output_dir=runs/a=b"}).output_dir, "runs/a=b");
  EXPECT_EQ(with({"lora.target_modules=[q_proj, v_proj]"}).lora->target_modules,
            (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(with({"memory.recompute=[full, none]"}).memory.recompute,
            (std::vector<Recompute>{Recompute::full, Recompute::none}));
  EXPECT_EQ(with({"lora.r=64"}).lora->r, 64);
  EXPECT_EQ(with({"lora={r: 64, lora_alpha: 1}"}).lora->r, 64);
  EXPECT_FALSE(with({"lora.r=64", "lora=null"}).lora.has_value());
  EXPECT_EQ(with({"lora.r=64", "lora=null", "lora={}"}).lora->r, 8);
  EXPECT_EQ(with({"lora.r=64", "lora={}"}).lora->r, 8);
  EXPECT_EQ(with({"lora.r=64", "lora={lora_alpha: 1}"}).lora->r, 8);
  EXPECT_FALSE(with({"memory.limit=24GB", "memory.limit=null"}).memory.limit_bytes.has_value());
  EXPECT_EQ(with({"memory.recompute=full", "memory.recompute=none"}).memory.recompute,
            std::vector{Recompute::none});
  EXPECT_TRUE(with({"memory.recompute=full", "memory.recompute=auto"}).memory.recompute.empty());
  EXPECT_EQ(with({"memory.loss_chunk_tokens=64", "memory.loss_chunk_tokens=auto"}).memory.loss_chunk_tokens,
            0);
}

TEST(Recipe, EntriesSayWhatLayersKeep) {
  LayerValues some = LayerValues{}.with(LayerValue::qkv).with(LayerValue::gate_up);
  Recipe recipe = with({"memory.recompute=[{layers: 0-2, keep: [qkv, gate_up]}, {layers: 4, keep: []}]"});
  EXPECT_EQ(
      recipe.memory.recompute,
      (std::vector<Recompute>{{some}, {some}, {some}, Recompute::none, Recompute::full, Recompute::none}));
  std::string written = yaml_value(find_recipe_key("memory.recompute")->print(recipe));
  EXPECT_EQ(written, "[{layers: 0-2, keep: [qkv, gate_up]}, {layers: 4, keep: []}]");
  EXPECT_EQ(with({"memory.recompute=" + written}).memory.recompute, recipe.memory.recompute);
  // A word per layer means the same.
  std::string words =
      yaml_value(find_recipe_key("memory.recompute")->print(with({"memory.recompute=[full, full, none]"})));
  EXPECT_EQ(words, "[{layers: 0-1, keep: []}]");
  EXPECT_EQ(with({"memory.recompute=[{layers: 0, keep: []}]"}).memory.recompute,
            (std::vector<Recompute>{Recompute::full, Recompute::none}))
      << "the first layer alone";
}

TEST(Recipe, PatternsKeepTheirOrderAndComeBackAsWritten) {
  Recipe recipe = with({R"(lora.rank_pattern={"layers\\.1\\..*": 3, q_proj: 2, "a: b": 9})",
                        "lora.alpha_pattern={v_proj: 2.5}", "lora.exclude_modules=.*up_proj",
                        "lora.bias=lora_only", "model.max_positions=100"});
  using Ranks = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(recipe.lora->rank_pattern, (Ranks{{R"(layers\.1\..*)", 3}, {"q_proj", 2}, {"a: b", 9}}));
  Recipe again = parse_recipe(recipe_to_yaml(recipe), "");
  EXPECT_EQ(again.lora->rank_pattern, recipe.lora->rank_pattern);
  EXPECT_EQ(again.lora->alpha_pattern, recipe.lora->alpha_pattern);
  EXPECT_EQ(again.lora->exclude_modules, std::vector<std::string>{".*up_proj"});
  EXPECT_EQ(again.lora->bias, LoraBias::lora_only);
  EXPECT_EQ(again.model.max_positions, 100);
  EXPECT_FALSE(with({"model.max_positions=5", "model.max_positions=null"}).model.max_positions.has_value());
}

// Each file's keys count over those that it is based on, section by section; paths are of their own file.
TEST(Recipe, CanExtendAnother) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "base/models/tiny");
  write_file_atomically(
      folder / "base/oldest.yml",
      "model: {path: models/tiny}\ndata: {train_file: a.jsonl}\nlora: {r: 4, lora_alpha: 9}\n");
  write_file_atomically(folder / "base/middle.yml",
                        "extends: oldest.yml\ntraining: {seed: 3, learning_rate: 1e-3}\n");
  write_file_atomically(folder / "mine.yml", "extends: base/middle.yml\nlora: {r: 8}\ntraining: {seed: 5}\n");
  Recipe recipe = read_recipe(folder / "mine.yml");
  EXPECT_EQ(recipe.model.path, (folder / "base/models/tiny").string());
  EXPECT_EQ(recipe.data.train_file.front().path, (folder / "base/a.jsonl").string());
  EXPECT_EQ(recipe.lora->r, 8);
  EXPECT_EQ(recipe.lora->lora_alpha, 9);
  EXPECT_EQ(recipe.training.seed, 5);
  EXPECT_EQ(recipe.training.learning_rate, 1e-3);
  Recipe again = parse_recipe(recipe_to_yaml(recipe), "");
  EXPECT_EQ(again.lora->lora_alpha, 9);  // written out

  write_file_atomically(folder / "mine.yml", "extends: base/middle.yml\nlora: null\n");
  EXPECT_FALSE(read_recipe(folder / "mine.yml").lora.has_value());
  auto message = [&](const char* text) -> std::string {
    write_file_atomically(folder / "base/oldest.yml", text);
    try {
      read_recipe(folder / "mine.yml");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("extends: ../mine.yml\n").find("extends leads back to"), std::string::npos);
  EXPECT_NE(message("model: {pth: x}\n").find("base/oldest.yml:1:9: unknown key"), std::string::npos);
  EXPECT_NE(message("extends: nowhere.yml\n").find("nowhere.yml: no such file"), std::string::npos);
}

TEST(Recipe, OverridesCanSupplyARequiredKey) {
  Recipe recipe = parse_recipe("data: {train_file: x}\n", "", {"model.path=tiny"});
  EXPECT_EQ(recipe.model.path, "tiny");
}

TEST(Recipe, SizesTakeUnits) {
  EXPECT_EQ(with({"memory.limit=24GB"}).memory.limit_bytes, 24'000'000'000);
  EXPECT_EQ(with({"memory.limit=24 GiB"}).memory.limit_bytes, 25'769'803'776);
  EXPECT_EQ(with({"memory.limit=\"1.5MB\""}).memory.limit_bytes, 1'500'000);
  EXPECT_EQ(with({"memory.limit=1000001"}).memory.limit_bytes, 1'000'001);
  for (const char* size : {"24GB", "3GiB", "1536MB", "100MiB", "1000001B"}) {
    std::string written = recipe_to_yaml(with({std::string("memory.limit=") + size}));
    EXPECT_NE(written.find(std::string("limit: ") + size + "\n"), std::string::npos) << written;
  }
}

TEST(Recipe, EvaluationBatchesMayBeLeftOpen) {
  EXPECT_FALSE(with({}).training.per_device_eval_batch_size.has_value());
  EXPECT_EQ(with({"training.per_device_eval_batch_size=3"}).training.per_device_eval_batch_size, 3);
  Recipe open = with({"training.per_device_eval_batch_size=3", "training.per_device_eval_batch_size=auto"});
  EXPECT_FALSE(open.training.per_device_eval_batch_size.has_value());
  EXPECT_EQ(recipe_to_json(open)["training"]["per_device_eval_batch_size"], "auto");
}

// No key may promise more than it keeps: to the bit, or to rounding.
TEST(Recipe, MemoryKeysSayHowExactlyTheResultStaysTheSame) {
  EXPECT_NE(find_recipe_key("memory.recompute")->help.find("bit for bit"), std::string_view::npos);
  EXPECT_NE(find_recipe_key("memory.loss_chunk_tokens")->help.find("to rounding"), std::string_view::npos);
  EXPECT_EQ(find_recipe_section("memory")->help.find("changes the result"), std::string_view::npos);
}

TEST(Recipe, DtypesAcceptHuggingFacesNames) {
  EXPECT_EQ(with({"model.dtype=fp16"}).model.dtype, DType::f16);
  EXPECT_EQ(with({"model.dtype=bfloat16"}).model.dtype, DType::bf16);
  EXPECT_FALSE(with({"model.dtype=fp32", "model.dtype=auto"}).model.dtype.has_value());
}

TEST(Recipe, AliasesStandForWhatTheyName) {
  Recipe recipe = parse_recipe("model: {path: &name tiny}\ndata: {train_file: *name}\n", "");
  EXPECT_EQ(recipe.data.train_file.at(0).path, "tiny");
}

TEST(Recipe, WindowsLineEndsAndByteOrderMarkAreFine) {
  Recipe recipe =
      parse_recipe("\xEF\xBB\xBFmodel:\r\n  path: tiny\r\ndata:\r\n  train_file: b\xC3\xA9\r\n", "");
  EXPECT_EQ(recipe.model.path, "tiny");
  EXPECT_EQ(recipe.data.train_file.at(0).path, "b\xC3\xA9");
}

TEST(Recipe, InputsAreRelativeToTheRecipe) {
  fs::path folder = fs::temp_directory_path() / ("snug_recipe_" + std::to_string(::getpid()));
  fs::create_directories(folder / "tiny");
  std::ofstream(folder / "demo.yml") << kSmallest;
  Recipe recipe = read_recipe(folder / "demo.yml");
  EXPECT_EQ(recipe.model.path, (folder / "tiny").string());
  EXPECT_EQ(recipe.data.train_file.at(0).path, (folder / "train.jsonl").string());
  EXPECT_EQ(recipe.output_dir, "runs/out");
  Recipe elsewhere =
      read_recipe(folder / "demo.yml", {"model.path=org/tiny", "data.train_file=/data/t.jsonl"});
  EXPECT_EQ(elsewhere.model.path, "org/tiny");
  EXPECT_EQ(elsewhere.data.train_file.at(0).path, "/data/t.jsonl");
  fs::remove_all(folder);
}

// The text lies beside the run's outputs, in another folder than the recipe.
TEST(Recipe, WrittenPathsAreAbsolute) {
  Recipe recipe = parse_recipe(kSmallest, "recipes/../recipes/demo.yml");
  std::string written = recipe_to_yaml(recipe);
  std::string expected = (fs::current_path() / "recipes/train.jsonl").string();
  Recipe again = parse_recipe(written, "runs/out/recipe.yml");
  EXPECT_EQ(again.data.train_file.at(0).path, expected);
  EXPECT_EQ(again.output_dir, (fs::current_path() / "runs/out").string());
  EXPECT_EQ(recipe_to_json(recipe)["data"]["train_file"], "recipes/train.jsonl");
}

// From a folder of its own, so that relative paths lead there and nowhere else.
TEST(Recipe, NoWrittenPathDependsOnTheCurrentFolder) {
  fs::path before = fs::current_path();
  fs::path folder = fs::temp_directory_path() / ("snug_paths_" + std::to_string(::getpid()));
  fs::create_directories(folder / "tiny");
  fs::current_path(folder);
  std::ofstream("mine.jinja") << "{{ messages }}";
  std::ofstream("demo.yml")
      << "model: {path: tiny}\ndata: {train_file: [t.jsonl], eval_file: e.jsonl, cache_dir: c, "
         "chat_template: mine.jinja}\noutput_dir: out\n";
  std::string written = recipe_to_yaml(read_recipe("demo.yml"));
  fs::current_path(before);
  Recipe again = parse_recipe(written, "/elsewhere/recipe.yml");
  EXPECT_EQ(again.data.chat_template, (folder / "mine.jinja").string());
  for (const std::string& path :
       {again.model.path, again.data.train_file.at(0).path, again.data.eval_file.at(0), again.data.cache_dir,
        again.data.chat_template, again.output_dir}) {
    EXPECT_TRUE(path.starts_with(folder.string() + "/")) << path;
  }
  fs::remove_all(folder);
}

TEST(Recipe, OddTextsSurviveWriting) {
  for (const char* name :
       {"null", "true", "1e5", "a: b", "- x", "'", "\"", "#", "a\\b", "...", "é", "[x]", " x "}) {
    Recipe recipe = with({});
    recipe.model.path = name;
    recipe.lora.emplace().target_modules = {name, "x"};
    Recipe again = parse_recipe(recipe_to_yaml(recipe), "demo.yml");
    EXPECT_EQ(again.model.path, name);
    EXPECT_EQ(again.lora->target_modules, (std::vector<std::string>{name, "x"}));
  }
}

TEST(Recipe, JsonHasTheSameKeys) {
  Json document = recipe_to_json(parse_recipe(kEveryKey, "/recipes/demo.yml"));
  EXPECT_EQ(document["training"]["learning_rate"], 1e-4);
  EXPECT_EQ(document["lora"]["target_modules"], Json::parse(R"(["q_proj", "layers.0.mlp.down_proj"])"));
  EXPECT_EQ(document["data"]["format"], "prompt_completion");
  EXPECT_EQ(document["output_dir"], "/runs/every key");
  EXPECT_TRUE(recipe_to_json(with({}))["lora"].is_null());
  EXPECT_TRUE(recipe_to_json(with({}))["data"]["eval_file"].is_null());
}

TEST(RecipeReference, TheCommittedPageIsCurrent) {
  std::ifstream file(fs::path(SNUG_SOURCE_DIR) / "docs/recipe.md", std::ios::binary);
  std::string committed(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(committed == recipe_reference_markdown())
      << "docs/recipe.md differs from the key table: run `snug docs recipe > docs/recipe.md`";
}

TEST(RecipeReference, ItsExampleIsARecipe) {
  std::string page = recipe_reference_markdown();
  std::string opening = "```yaml\n";
  size_t start = page.find(opening) + opening.size();
  Recipe recipe = parse_recipe(page.substr(start, page.find("```", start) - start), "docs/recipe.md");
  EXPECT_EQ(recipe.lora->r, 16);
  EXPECT_EQ(recipe.memory.limit_bytes, 24'000'000'000);
}

}  // namespace
}  // namespace snug
