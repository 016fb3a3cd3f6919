// Runs that learn nothing say so: weights that are no numbers, gradients that overflow, losses that explode.
#include <gtest/gtest.h>

#include <cstring>

#include "support/run_snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class Learning : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  CommandResult train(const std::vector<std::string>& settings) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml")};
    for (const std::string& set :
         {"output_dir=" + path("run"), "data.cache_dir=" + path("cache"), std::string("data.eval_file=null"),
          std::string("logging.logging_steps=1")}) {
      all.insert(all.end(), {"--set", set});
    }
    for (const std::string& set : settings) {
      all.insert(all.end(), {"--set", set});
    }
    return run_snug(all);
  }
  static void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    }
  }
  // A copy of the embedded model, with every bf16 number of one tensor changed.
  void spoil(const std::string& tensor, uint16_t (*change)(uint16_t)) const {
    fs::copy(source_path("models/tiny-story"), path("model"));
    std::string bytes = read_text_file(path("model/model.safetensors"));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    Json place = parse_json(bytes.substr(8, length), "header")[tensor]["data_offsets"];
    for (uint64_t at = 8 + length + place[0].get<uint64_t>(); at < 8 + length + place[1].get<uint64_t>();
         at += 2) {
      uint16_t bits = 0;
      std::memcpy(&bits, &bytes[at], sizeof bits);
      bits = change(bits);
      std::memcpy(&bytes[at], &bits, sizeof bits);
    }
    write_file_atomically(path("model/model.safetensors"), bytes);
  }
  bool has_result() const { return fs::exists(path("run/adapter_model.safetensors")); }

  TemporaryFolder folder_;
};

TEST_F(Learning, WeightsThatAreNoNumbersAreNamed) {
  spoil("model.layers.3.mlp.down_proj.weight", [](uint16_t) { return uint16_t{0x7fc0}; });
  CommandResult result = train({"model.path=" + path("model"), "training.max_steps=3"});
  EXPECT_EQ(result.exit_code, 2);
  expect_words(result.errors, {"step 1", "nan", "model.layers.3.mlp.down_proj.weight", "Nothing was saved"});
  EXPECT_EQ(result.errors.find("learning_rate"), std::string::npos) << result.errors;
  EXPECT_FALSE(has_result());
}

// The adapters start at nothing, so the loss is that of the model; their gradients overflow fp32.
TEST_F(Learning, GradientsThatAreNeverFiniteEndTheRun) {
  CommandResult result = train({"lora.r=64", "lora.lora_alpha=1.92e40", "training.max_steps=100000"});
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  expect_words(result.errors, {"warning", "skipped", "error:", "last 10 steps", "Nothing was saved"});
  EXPECT_FALSE(has_result());
  // Shorter than that, it is no success either.
  result = train({"lora.r=64", "lora.lora_alpha=1.92e40", "training.max_steps=3"});
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  expect_words(result.errors, {"all 3 steps", "Nothing was saved"});
  std::string metrics = read_text_file(path("run/metrics.jsonl"));
  expect_words(metrics, {"\"skipped_updates\":1,", "\"skipped_updates\":3,", "\"grad_norm\":null"});
}

// A last norm 1024 times too large makes the model sure of what it does not know.
TEST_F(Learning, ALossThatExplodesIsWarnedOf) {
  spoil("model.norm.weight", [](uint16_t bits) { return static_cast<uint16_t>(bits + (10U << 7)); });
  CommandResult result = train({"model.path=" + path("model"), "training.max_steps=2"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  expect_words(result.errors,
               {"warning:", "the loss of step 1", "guessing among all tokens", "6.931"});  // ln 1024
  Json summary = read_json(path("run/summary.json"));
  EXPECT_EQ(summary["warnings"].size(), 1U);
  EXPECT_EQ(summary["skipped_updates"], 0);
}

TEST_F(Learning, TroubleCanBeGoneOnWith) {
  CommandResult result =
      train({"training.on_trouble=warn", "lora.r=64", "lora.lora_alpha=1.92e40", "training.max_steps=12"});
  EXPECT_EQ(result.exit_code, 2) << result.errors;  // in the end nothing was learned
  expect_words(result.errors, {"warning: the gradients of the last 10 steps", "all 12 steps"});
}

// What goes through the layer's attention is multiplied with 0, so that its queries do not matter.
TEST_F(Learning, AdaptersWithoutGradientsAreNamed) {
  spoil("model.layers.3.self_attn.o_proj.weight", [](uint16_t) { return uint16_t{0}; });
  std::vector<std::string> settings = {"model.path=" + path("model"), "training.max_steps=25",
                                       "lora.target_modules=[q_proj]"};
  CommandResult result = train(settings);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  expect_words(result.errors, {"warning:", "adapters are what they began with",
                               "model.layers.3.self_attn.q_proj first", "lora.exclude_modules"});
  settings.back() = "lora.target_modules=[model.layers.3.self_attn.q_proj]";
  settings.emplace_back("output_dir=" + path("alone"));
  result = train(settings);
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  expect_words(result.errors, {"error:", "1 of 1 adapters"});
}

TEST_F(Learning, AWarmUpLongerThanTheRunIsRefused) {
  CommandResult result = train({"training.num_train_epochs=1", "training.warmup_steps=81"});  // 80 steps
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  expect_words(result.errors, {"training.warmup_steps is 81", "80 steps"});
  EXPECT_FALSE(fs::exists(path("run/recipe.yml")));
}

}  // namespace
}  // namespace snug
