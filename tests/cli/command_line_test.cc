// The command line itself: names of commands, recipes from elsewhere, being started by a launcher.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "support/run_snug.h"

namespace snug {
namespace {

TEST(CommandLine, AMisspeltCommandIsNamedWithTheNearest) {
  CommandResult result = run_snug({"trian", "recipe.yml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.errors, "error: unknown command \"trian\"; did you mean \"train\"?\n");
  EXPECT_NE(run_snug({"juggle"}).errors.find("unknown command \"juggle\"; the commands are: inspect, plan"),
            std::string::npos);
}

TEST(CommandLine, AloneItListsItsCommands) {
  CommandResult result = run_snug({});
  EXPECT_EQ(result.exit_code, 2);
  for (const char* command : {"inspect", "plan", "data", "train", "generate", "synth", "tokenize"}) {
    EXPECT_NE(result.output.find(std::string("\n  ") + command), std::string::npos) << command;
  }
}

TEST(CommandLine, HelpShowsDefaults) {
  std::string text = run_snug({"generate", "--help"}).output;
  size_t option = text.find("--max-new-tokens");
  ASSERT_NE(option, std::string::npos);
  // Versions of CLI11 write it as =100 or as [100].
  EXPECT_NE(text.substr(option, text.find('\n', option) - option).find("100"), std::string::npos) << text;
}

// --gpu "$CARD" in a script where CARD is not set must not plan for another device.
TEST(CommandLine, EmptyValuesAreRefused) {
  std::string recipe = source_path("recipes/ship_log.yml");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"plan", recipe, "--gpu", ""},
        {"plan", recipe, "--device", ""},
        {"plan", recipe, "--memory", ""},
        {"fit", recipe, "--gpu", ""},
        {"diff", recipe, recipe, "--gpu", ""},
        {"diff", recipe, recipe, "--memory", ""},
        {"generate", source_path("models/tiny-story"), "--prompt", "x", "--memory", ""}}) {
    CommandResult result = run_snug(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_EQ(result.output, "");
    EXPECT_NE(result.errors.find("it is empty: give a value, or leave it out"), std::string::npos)
        << result.errors;
  }
}

TEST(CommandLine, AMemoryThatIsNoSizeIsNamedAsItWasGiven) {
  for (const char* size : {"lots", "0", "-5GB"}) {
    CommandResult result = run_snug({"plan", source_path("recipes/ship_log.yml"), "--memory", size});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.errors,
              std::string("error: --memory is \"") + size + "\": expected a size such as 24GB or 22.3GiB\n");
  }
}

TEST(CommandLine, WhatIsNoNumberIsRefused) {
  for (const char* option : {"--temperature", "--top-p"}) {
    CommandResult result =
        run_snug({"generate", source_path("models/tiny-story"), "--prompt", "x", option, "nan"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.errors.find("nan is not a number"), std::string::npos) << result.errors;
  }
}

// Short reports stay in a buffer until the program ends.
TEST(CommandLine, AReportThatCannotBeWrittenIsAFailure) {
  std::string command = shell_quoted(SNUG_BINARY) + " inspect " +
                        shell_quoted(source_path("models/tiny-story")) + " 2>&1 >/dev/full";
  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 256> buffer{};
  size_t count = fread(buffer.data(), 1, buffer.size(), pipe);
  int status = pclose(pipe);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(std::string(buffer.data(), count),
            "error: standard output: cannot be written: No space left on device\n");
}

// Where nobody may look, root may; where links go in circles, nobody gets anywhere.
TEST(CommandLine, APlaceThatCannotBeReachedIsNamed) {
  TemporaryFolder folder;
  std::filesystem::path loop = folder.path() / "loop";
  std::filesystem::create_symlink(loop, loop);
  CommandResult result = run_snug({"inspect", loop.string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.errors.find("error: " + loop.string()), 0U) << result.errors;
  EXPECT_NE(
      result.errors.find("cannot be reached: Too many levels of symbolic links; let this user look there"),
      std::string::npos)
      << result.errors;
}

// Names of files and words of prompts are bytes; a JSON reader takes nothing but UTF-8.
TEST(CommandLine, ReportsAreJsonWhateverTheyWereGiven) {
  TemporaryFolder folder;
  std::string recipe = (folder.path() / "caf\xe9.yml").string();
  write_file_atomically(recipe, "model: {path: \"" + source_path("models/tiny-story") +
                                    "\"}\ndata: {train_file: x.jsonl, max_length: 64}\n");
  Json diff = json_output(run_snug({"diff", recipe, recipe, "--json"}));
  EXPECT_NE(diff.dump().find("caf\xef\xbf\xbd.yml"), std::string::npos) << diff.dump();
  json_output(run_snug({"doctor", recipe, "--json"}));
  Json text = json_output(run_snug({"generate", source_path("models/tiny-story"), "--prompt", "caf\xe9",
                                    "--max-new-tokens", "1", "--json"}));
  EXPECT_EQ(text["prompt"], "caf\xef\xbf\xbd");
}

TEST(CommandLine, TheVersionNamesCommitBackendsAndLibraries) {
  std::string text = run_snug({"--version"}).output;
  EXPECT_EQ(text.find("snug 0."), 0U) << text;
  for (const char* part : {"commit", "backends", "cpu", "OpenBLAS", "built with"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(CommandLine, ARecipeComesFromStandardInput) {
  std::string in_source = "cd " + shell_quoted(SNUG_SOURCE_DIR) + "/recipes && ";
  CommandResult piped = run_snug({"plan", "-", "--json"}, in_source, source_path("recipes/ship_log.yml"));
  CommandResult named = run_snug({"plan", "ship_log.yml", "--json"}, in_source);
  EXPECT_EQ(piped.exit_code, 0) << piped.errors;
  EXPECT_EQ(json_output(piped)["peak_bytes"], json_output(named)["peak_bytes"]);
}

TEST(CommandLine, TheHomeFolderHasItsSign) {
  std::string with_home = "HOME=" + shell_quoted(SNUG_SOURCE_DIR) + " ";
  CommandResult result = run_snug({"plan", source_path("recipes/ship_log.yml"), "--json", "--set",
                                   "model.path=~/models/tiny-story", "--memory", "2G"},
                                  with_home);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

// Two processes with the same recipe would train the same thing twice, into one folder.
TEST(CommandLine, SeveralRanksAreRefusedWithTheReason) {
  for (const char* launcher :
       {"WORLD_SIZE=2 RANK=1 ", "OMPI_COMM_WORLD_SIZE=4 ", "SLURM_STEP_NUM_TASKS=2 "}) {
    CommandResult result = run_snug({"train", source_path("recipes/ship_log.yml")}, launcher);
    EXPECT_EQ(result.exit_code, 2) << launcher;
    EXPECT_NE(result.errors.find("one process"), std::string::npos) << result.errors;
  }
  EXPECT_EQ(run_snug({"plan", source_path("recipes/ship_log.yml")}, "WORLD_SIZE=2 ").exit_code, 0);
}

}  // namespace
}  // namespace snug
