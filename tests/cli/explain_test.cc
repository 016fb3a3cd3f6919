// snug explain: logs that people published, told as the golden files have it.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "support/run_snug.h"

namespace snug {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Regenerate with: snug explain FOLDER/NAME > tests/goldens/logs/NAME.told
void expect_told(const std::string& folder, const std::string& name) {
  CommandResult result = run_snug({"explain", source_path(folder + "/" + name)});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, contents(source_path("tests/goldens/logs/" + name + ".told")));
}

TEST(Explain, TheRiddleOfCase1) {
  expect_told("recipes/cases", "parsing_mtup.log");
}

TEST(Explain, TheLoadingOfCase4) {
  expect_told("recipes/cases", "compliance.log");
}

TEST(Explain, NvidiaSmi) {
  expect_told("tests/goldens/logs", "nvidia_smi.txt");
}

// With the recipe, the settings that make it fit.
TEST(Explain, ARecipeBesideTheLog) {
  Json told = json_output(run_snug({"explain", source_path("recipes/cases/compliance.log"),
                                    source_path("recipes/cases/compliance.yml"), "--json"}));
  EXPECT_EQ(told["model"], "deepseek-ai/deepseek-llm-7b-base");
  EXPECT_EQ(told["fits"]["settings"][0], "model.dtype=bf16");
  EXPECT_LE(told["fits"]["peak_bytes"], told["fits"]["limit_bytes"]);
}

// What the run would take under transformers, as 'snug plan --as transformers' counts it.
TEST(Explain, WhatItTakesElsewhere) {
  std::string recipe = source_path("recipes/cases/compliance.yml");
  Json told =
      json_output(run_snug({"explain", source_path("recipes/cases/compliance.log"), recipe, "--json"}));
  Json planned = parse_json(
      run_snug({"plan", recipe, "--device", "cuda", "--as", "transformers", "--json"}).output, "plan");
  ASSERT_FALSE(told["as_transformers"].empty());
  EXPECT_EQ(told["as_transformers"], planned["as_transformers"]);
  bool fails = false;
  for (const Json& stack : told["as_transformers"]) {
    fails = fails || stack["peak_bytes"] > told["fits"]["limit_bytes"];
  }
  EXPECT_TRUE(fails) << "as it did there";
}

TEST(Explain, OneStageOfARecipe) {
  std::vector<std::string> command = {"explain", source_path("recipes/cases/security.log"),
                                      source_path("recipes/cases/security.yml")};
  CommandResult result = run_snug(command);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("--stage is not given"), std::string::npos) << result.errors;
  std::string names = result.errors.substr(result.errors.rfind(": ") + 2);
  command.insert(command.end(), {"--stage", names.substr(0, names.find_first_of(",\n"))});
  result = run_snug(command);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  command.back() = "nowhere";
  EXPECT_NE(run_snug(command).errors.find("--stage is \"nowhere\""), std::string::npos);
}

TEST(Explain, ALogThatSaysNothing) {
  CommandResult result = run_snug({"explain", source_path("README.md")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("What can be explained: PyTorch's"), std::string::npos) << result.errors;
  EXPECT_EQ(run_snug({"explain", "no-such.log"}).exit_code, 2);
  result = run_snug({"explain", source_path("tests")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("is a folder"), std::string::npos) << result.errors;
}

TEST(Explain, ALogFromAPipe) {
  CommandResult result = run_snug({"explain", "-"}, "", source_path("tests/goldens/logs/nvidia_smi.txt"));
  EXPECT_EQ(result.output, contents(source_path("tests/goldens/logs/nvidia_smi.txt.told")));
}

}  // namespace
}  // namespace snug
