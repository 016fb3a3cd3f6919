// Bad input and failing machines: a clear message, the right exit code, and nothing half written.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "support/run_snug.h"

namespace snug {
namespace {

const std::string kRecipe = source_path("recipes/ship_log.yml");

// A copy of the embedded model whose weights a test can spoil.
class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(source_path("models/tiny-story"), model());
    ASSERT_TRUE(std::filesystem::exists(weights())) << "the embedded model has no weights";
  }

  std::filesystem::path model() const { return folder_.path() / "model"; }
  std::filesystem::path weights() const { return model() / "model.safetensors"; }
  std::filesystem::path output() const { return folder_.path() / "run"; }

  CommandResult train(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", kRecipe,
                                          "--set", "model.path=" + model().string(),
                                          "--set", "output_dir=" + output().string(),
                                          "--set", "training.max_steps=2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_snug(arguments);
  }

  void expect_refused(const CommandResult& result, const std::vector<std::string>& words,
                      int code = 2) const {
    EXPECT_EQ(result.exit_code, code) << result.errors;
    for (const std::string& word : words) {
      EXPECT_NE(result.errors.find(word), std::string::npos) << word << " is not in: " << result.errors;
    }
    EXPECT_FALSE(std::filesystem::exists(output() / "adapter_model.safetensors"));
    EXPECT_FALSE(std::filesystem::exists(output() / "summary.json"));
  }

  std::string header() const {
    std::string bytes = read_text_file(weights());
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    return bytes.substr(8, length);
  }

  // Replaces the header and keeps the data.
  void write_header(const std::string& text) const {
    std::string bytes = read_text_file(weights());
    uint64_t old_length = 0;
    std::memcpy(&old_length, bytes.data(), sizeof old_length);
    uint64_t length = text.size();
    std::string result(reinterpret_cast<const char*>(&length), sizeof length);
    result += text + bytes.substr(8 + old_length);
    write_file_atomically(weights(), result);
  }

  TemporaryFolder folder_;
};

TEST_F(BadInput, TheCopyItselfTrains) {
  EXPECT_EQ(train().exit_code, 0);
}

TEST_F(BadInput, TruncatedWeights) {
  std::filesystem::resize_file(weights(), std::filesystem::file_size(weights()) / 2);
  expect_refused(train(), {"model.safetensors"});
}

TEST_F(BadInput, OversizedHeader) {
  std::fstream file(weights(), std::ios::in | std::ios::out | std::ios::binary);
  uint64_t length = uint64_t{1} << 60;
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.close();
  expect_refused(train(), {"model.safetensors", "header"});
}

TEST_F(BadInput, OverlappingTensors) {
  Json json = parse_json(header(), "header");
  json["model.norm.weight"]["data_offsets"] = json["model.layers.0.input_layernorm.weight"]["data_offsets"];
  write_header(json.dump());
  expect_refused(train(), {"model.safetensors"});
}

TEST_F(BadInput, WrongDtype) {
  std::string text = header();
  size_t at = text.find("BF16");
  text.replace(at, 4, "F32 ");
  write_header(text);
  expect_refused(train(), {"model.safetensors", "F32"});
}

TEST_F(BadInput, MissingTensor) {
  std::string text = header();
  const std::string name = "model.layers.2.mlp.up_proj.weight";
  size_t at = text.find(name);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, name.size(), "model.layers.2.mlp.up_prox.weight");
  write_header(text);
  expect_refused(train(), {name, "missing"});
}

TEST_F(BadInput, MissingShard) {
  std::filesystem::rename(weights(), model() / "model-00001-of-00002.safetensors");
  Json index = {{"metadata", {{"total_size", 1}}},
                {"weight_map",
                 {{"model.norm.weight", "model-00001-of-00002.safetensors"},
                  {"lm_head.weight", "model-00002-of-00002.safetensors"}}}};
  write_file_atomically(model() / "model.safetensors.index.json", index.dump());
  expect_refused(train(), {"model-00002-of-00002.safetensors"});
}

TEST_F(BadInput, NoWeightsAtAll) {
  std::filesystem::remove(weights());
  expect_refused(train(), {"safetensors"});
}

TEST_F(BadInput, ConfigThatDisagreesWithTheWeights) {
  Json config = read_json(model() / "config.json");
  config["intermediate_size"] = 400;
  write_file_atomically(model() / "config.json", config.dump());
  expect_refused(train(), {"gate_proj", "[384, 192]", "[400, 192]"});
}

TEST_F(BadInput, MoreTokensThanTheModelsPositions) {
  for (const char* command : {"plan", "train"}) {
    auto with = [&](const std::vector<std::string>& more) {
      std::vector<std::string> arguments = {command, kRecipe, "--set", "data.max_length=4096"};
      arguments.insert(arguments.end(), {"--set", "output_dir=" + output().string(), "--set",
                                         "training.max_steps=1", "--set", "data.max_samples=8"});
      arguments.insert(arguments.end(), more.begin(), more.end());
      return run_snug(arguments);
    };
    expect_refused(with({}), {"data.max_length is 4096", "model.max_positions"});
    CommandResult allowed = with({"--set", "model.max_positions=4096"});
    EXPECT_EQ(allowed.exit_code, 0) << allowed.errors;
    EXPECT_NE(allowed.output.find("! sequences of 4096 tokens"), std::string::npos) << allowed.output;
    std::filesystem::remove_all(output());
  }
}

TEST_F(BadInput, MoreTextThanTheModelsPositions) {
  auto generate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"generate", model().string(),   "--prompt",
                                          "Once",     "--max-new-tokens", "600"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_snug(arguments);
  };
  expect_refused(generate({}), {"512 positions", "--max-positions 60"});
  CommandResult allowed = generate({"--max-positions", "700"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.errors;
  EXPECT_NE(allowed.errors.find("512 positions"), std::string::npos) << allowed.errors;
}

TEST_F(BadInput, GenerationWithATokenizerOfAnotherModel) {
  Json config = read_json(model() / "config.json");
  config["vocab_size"] = 100;
  write_file_atomically(model() / "config.json", config.dump());
  CommandResult result = run_snug({"generate", model().string(), "--prompt", "zebra"});
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("vocabulary is 100"), std::string::npos) << result.errors;
}

TEST_F(BadInput, GenerationWithWeightsThatAreNoNumbers) {
  Json info = parse_json(header(), "header")["model.norm.weight"];
  ASSERT_EQ(info["dtype"], "BF16");
  std::string bytes = read_text_file(weights());
  size_t at = 8 + header().size() + info["data_offsets"][0].get<size_t>();
  bytes.replace(at, 2, "\xC0\x7F");  // NaN
  write_file_atomically(weights(), bytes);
  for (const char* temperature : {"0", "1"}) {
    CommandResult result =
        run_snug({"generate", model().string(), "--prompt", "Once", "--temperature", temperature});
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.errors.find("not finite"), std::string::npos) << result.errors;
  }
}

TEST_F(BadInput, UnsupportedArchitecture) {
  Json config = read_json(model() / "config.json");
  config["architectures"] = {"GPT2LMHeadModel"};
  write_file_atomically(model() / "config.json", config.dump());
  expect_refused(train(), {"GPT2LMHeadModel", "LlamaForCausalLM"});
}

TEST_F(BadInput, RecipeErrorsNameThePlaceAndTheNearestKey) {
  std::string recipe = (folder_.path() / "bad.yml").string();
  write_file_atomically(recipe, "model:\n  path: model\ntraining:\n  learning_rat: 1e-4\n");
  CommandResult result = run_snug({"plan", recipe});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("bad.yml:4:3"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("learning_rate"), std::string::npos) << result.errors;
}

TEST_F(BadInput, UnknownTargetModule) {
  expect_refused(train({"--set", "lora.target_modules=[q_porj]"}), {"q_porj", "q_proj"});
}

TEST_F(BadInput, OutputFolderThatCannotBeWritten) {
  // A file stands where the folder should be: refused for root, too.
  write_file_atomically(output(), "not a folder");
  CommandResult result = train();
  EXPECT_EQ(result.exit_code, 1) << result.errors;
  EXPECT_NE(result.errors.find(output().string()), std::string::npos) << result.errors;
  EXPECT_EQ(read_text_file(output()), "not a folder");
}

TEST_F(BadInput, DiskThatFillsLeavesNoHalfFile) {
  // A limit on file size stands in for a full disk: writes beyond it fail in the same way (EFBIG).
  std::vector<std::string> arguments = {"train", kRecipe,
                                        "--set", "model.path=" + model().string(),
                                        "--set", "output_dir=" + output().string(),
                                        "--set", "training.max_steps=1"};
  CommandResult result = run_snug(arguments, "trap '' XFSZ; ulimit -f 1000; ");
  EXPECT_EQ(result.exit_code, 1) << result.errors;
  EXPECT_NE(result.errors.find("adapter_model.safetensors"), std::string::npos) << result.errors;
  for (const auto& entry : std::filesystem::directory_iterator(output())) {
    EXPECT_EQ(entry.path().string().find("adapter_model"), std::string::npos) << entry.path();
  }
  EXPECT_FALSE(std::filesystem::exists(output() / "summary.json"));
}

}  // namespace
}  // namespace snug
