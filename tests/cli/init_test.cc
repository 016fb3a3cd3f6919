// snug init: the recipe that it writes is one.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/run_snug.h"

namespace snug {
namespace {

struct Written {
  CommandResult result;
  std::string path;
  std::string text;
};

Written init(const TemporaryFolder& folder, const std::vector<std::string>& more,
             const std::string& model = source_path("models/tiny-story")) {
  std::string path = (folder.path() / "first.yml").string();
  std::vector<std::string> arguments = {
      "init", "--model", model, "-o", path, "--data", source_path("recipes/data/ship_log_train.jsonl")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  CommandResult result = run_snug(arguments);
  std::string text = std::filesystem::exists(path) ? read_text_file(path) : "";
  return {result, path, text};
}

TEST(Init, WhatItWritesIsPlannedAndTrained) {
  TemporaryFolder folder;
  Written written = init(folder, {});
  ASSERT_EQ(written.result.exit_code, 0) << written.result.errors;
  EXPECT_EQ(run_snug({"plan", written.path, "--device", "cpu"}).exit_code, 0);
  std::string output = (folder.path() / "run").string();
  CommandResult trained = run_snug({"train", written.path, "--device", "cpu", "--set", "training.max_steps=2",
                                    "--set", "output_dir=" + output});
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_TRUE(std::filesystem::exists(output + "/adapter_model.safetensors"));
  // The data's longest row has 70 tokens (README.md).
  EXPECT_NE(written.text.find("max_length: 128  # the longest of"), std::string::npos) << written.text;
  EXPECT_NE(written.text.find("# It trains 240,640 of 1,796,160 parameters"), std::string::npos)
      << written.text;
}

// As people type it: a name alone.
TEST(Init, WritesIntoTheCurrentFolder) {
  TemporaryFolder folder;
  CommandResult result = run_snug({"init", "--model", source_path("models/tiny-story"), "--data",
                                   source_path("recipes/data/ship_log_train.jsonl"), "-o", "first.yml"},
                                  "cd " + shell_quoted(folder.path().string()) + " && ");
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(run_snug({"plan", "first.yml", "--device", "cpu"},
                     "cd " + shell_quoted(folder.path().string()) + " && ")
                .exit_code,
            0);
}

TEST(Init, ACardIsFittedAndNamed) {
  TemporaryFolder folder;
  Written written = init(folder, {"--gpu", "quadro rtx 6000"}, "Qwen/Qwen2.5-7B-Instruct");
  ASSERT_EQ(written.result.exit_code, 0) << written.result.errors;
  EXPECT_NE(written.text.find("dtype: fp16"), std::string::npos) << written.text;
  EXPECT_NE(written.text.find("# Chosen to fit: up to"), std::string::npos) << written.text;
  EXPECT_EQ(run_snug({"plan", written.path, "--device", "cuda"}).exit_code, 0);
}

// 15.23 GB of weights are more than the card has; in 4 bits they are not.
TEST(Init, ASmallCardGetsFourBits) {
  TemporaryFolder folder;
  Written written = init(folder, {"--gpu", "3060"}, "Qwen/Qwen2.5-7B-Instruct");
  ASSERT_EQ(written.result.exit_code, 0) << written.result.errors;
  EXPECT_NE(written.text.find("quantization: nf4_double"), std::string::npos) << written.text;
  TemporaryFolder other;
  Written full = init(other, {"--gpu", "3060", "--method", "full"}, "Qwen/Qwen2.5-7B-Instruct");
  EXPECT_EQ(full.result.exit_code, 3);
  EXPECT_NE(full.text.find("it does not fit"), std::string::npos) << full.text;
}

TEST(Init, WhatIsMissingOrThereAlready) {
  CommandResult missing = run_snug({"init", "--data", source_path("recipes/data/ship_log_train.jsonl")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.errors.find("--model is missing"), std::string::npos) << missing.errors;
  TemporaryFolder folder;
  EXPECT_EQ(init(folder, {"--method", "magic"}).result.exit_code, 2);
  EXPECT_EQ(init(folder, {}).result.exit_code, 0);
  Written again = init(folder, {});
  EXPECT_EQ(again.result.exit_code, 2);
  EXPECT_NE(again.result.errors.find("is there already"), std::string::npos) << again.result.errors;
}

}  // namespace
}  // namespace snug
