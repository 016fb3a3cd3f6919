// snug fit: the recipe that it writes fits, is the person's own otherwise, and trains to the same losses.
#include <gtest/gtest.h>

#include <sstream>

#include "model/locate.h"
#include "support/model_rounding.h"
#include "support/run_snug.h"

namespace snug {
namespace {

class FitCommand : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(path(name), text);
  }
  std::string ship_log(const std::string& more = "") const {
    return "# Mine.\nmodel: {path: \"" + source_path("models/tiny-story") + "\", dtype: fp32}\n\nlora:\n" +
           "  r: 16           # as always\n  lora_dropout: 0.05\n\ndata:\n  train_file: " +
           source_path("recipes/data/ship_log_train.jsonl") +
           "\n  max_length: 192\n  cache_dir: " + path("cache") + "\n" + more +
           "\ntraining:\n  per_device_train_batch_size: 8\n  learning_rate: 1e-4\n  max_steps: 3\n"
           "  save_strategy: 'no'\n\nlogging: {logging_steps: 1}   # all of them\n";
  }
  // The losses of all steps.
  std::vector<double> train(const std::string& recipe, const std::string& run) const {
    CommandResult result = run_snug({"train", path(recipe), "--set", "output_dir=" + path(run), "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    std::vector<double> losses;
    std::istringstream lines(read_text_file(path(run + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      Json one = parse_json(line, "metrics");
      if (one.contains("loss")) {
        losses.push_back(one["loss"].get<double>());
      }
    }
    return losses;
  }

  TemporaryFolder folder_;
};

TEST_F(FitCommand, WhatItWritesFitsAndTrainsToTheSameLosses) {
  for (bool packing : {false, true}) {
    write("mine.yml", ship_log(packing ? "  packing: true  # in packs\n" : ""));
    CommandResult fitted =
        run_snug({"fit", path("mine.yml"), "--memory", "24MiB", "-o", path("fitted.yml"), "--json"});
    ASSERT_EQ(fitted.exit_code, 0) << fitted.output << fitted.errors;
    Json report = json_output(fitted);
    const Json& stage = report["stages"][0];
    EXPECT_GT(stage["before_bytes"], 24 << 20) << "there is something to do";
    int64_t saved = 0;
    for (const Json& change : stage["changes"]) {
      saved += change["saved_bytes"].get<int64_t>();
    }
    EXPECT_EQ(saved, stage["before_bytes"].get<int64_t>() - stage["peak_bytes"].get<int64_t>());
    Json plan = json_output(run_snug({"plan", path("fitted.yml"), "--json"}));
    EXPECT_EQ(plan["fits"], true);
    EXPECT_EQ(plan["peak_bytes"], stage["peak_bytes"]) << "byte for byte";
    // All that was written is there, and new lines alone are not.
    std::istringstream lines(read_text_file(path("mine.yml")));
    std::string text = read_text_file(path("fitted.yml"));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_NE(text.find(line), std::string::npos) << line;
    }
    std::vector<double> before = train("mine.yml", packing ? "packs" : "rows");
    std::vector<double> after = train("fitted.yml", packing ? "fitted_packs" : "fitted_rows");
    ASSERT_EQ(before.size(), 3U);
    ASSERT_EQ(after.size(), before.size());
    double error = product_error(locate_model(source_path("models/tiny-story")).spec, 8 * 192);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_NEAR(after[i], before[i], error * before[i]) << i;
    }
  }
}

// What fit wrote down is no choice of plan's, and nothing that there is room for.
TEST_F(FitCommand, APlanDoesNotTakeTheRecipesRecomputationForItsOwn) {
  write("mine.yml", ship_log());
  CommandResult fitted =
      run_snug({"fit", path("mine.yml"), "--memory", "24MiB", "-o", path("my fitted.yml")});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.output << fitted.errors;
  EXPECT_NE(fitted.output.find("snug plan '" + path("my fitted.yml") + "'"), std::string::npos)
      << fitted.output;
  std::string text =
      run_snug({"plan", path("my fitted.yml"), "--set", "memory.micro_batch_tokens=auto"}).output;
  EXPECT_NE(text.find(", as memory.recompute says: "), std::string::npos) << text;
  EXPECT_EQ(text.find("room for everything"), std::string::npos) << text;
}

TEST_F(FitCommand, NothingOfTheExperimentChangesWithoutLeave) {
  write("mine.yml", ship_log());
  std::vector<std::string> command = {"fit", path("mine.yml"), "--memory", "11MB", "-o", path("fitted.yml")};
  CommandResult refused = run_snug(command);
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_FALSE(std::filesystem::exists(path("fitted.yml")));
  EXPECT_NE(refused.output.find("--allow KEY lets fit make such a change: "), std::string::npos)
      << refused.output;
  command.insert(command.end(), {"--allow", "model.dtype,training.optimizer_states,model.quantization"});
  CommandResult taken = run_snug(command);
  EXPECT_EQ(taken.exit_code, 0) << taken.output;
  EXPECT_NE(taken.output.find("other numerics"), std::string::npos) << taken.output;
  EXPECT_EQ(run_snug({"plan", path("fitted.yml")}).exit_code, 0);
  CommandResult unknown = run_snug({"fit", path("mine.yml"), "--memory", "11MB", "--allow", "lora.rank"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.errors.find("--allow \"lora.rank\": expected one of"), std::string::npos);
}

// Of a length it is said what it would cut: of these 640 rows 7 are longer than 64 tokens, and none than 70
// (snug data shows them).
TEST_F(FitCommand, AShorterLengthHasItsPrice) {
  write("mine.yml", ship_log());
  std::vector<std::string> command = {"fit", path("mine.yml")};
  for (const char* setting :
       {"model.dtype=bf16", "training.optimizer_states=8bit", "model.quantization=nf4_double"}) {
    command.insert(command.end(), {"--set", setting});  // there is no opt-in left
  }
  command.insert(command.end(), {"--memory", "5.8MB"});
  CommandResult refused = run_snug(command);
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_NE(refused.output.find("data.max_length=64"), std::string::npos) << refused.output;
  EXPECT_NE(refused.output.find("in 1.1% of its rows"), std::string::npos) << refused.output;
}

TEST_F(FitCommand, SaysWhereItCannotWrite) {
  std::filesystem::create_directory(path("other"));
  write("data.jsonl", "{\"text\": \"a\"}\n");
  write("mine.yml", "model: {path: Qwen/Qwen2.5-0.5B}\ndata: {train_file: data.jsonl}\n");
  CommandResult result = run_snug({"fit", path("mine.yml"), "--gpu", "h200", "-o", path("other/fitted.yml")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("it names files that are found from the folder of"), std::string::npos)
      << result.errors;
  CommandResult unlimited = run_snug({"fit", path("mine.yml"), "--device", "cuda"});
  EXPECT_EQ(unlimited.exit_code, 2);
  EXPECT_NE(unlimited.errors.find("nothing says how much memory there is"), std::string::npos);
}

TEST_F(FitCommand, WhatARecipeExtendsStaysAsItIs) {
  write("base.yml", ship_log());
  write("mine.yml", "extends: base.yml   # ours\r\ntraining: {seed: 7}\r\n");
  ASSERT_EQ(run_snug({"fit", path("mine.yml"), "--memory", "24MiB", "-o", path("fitted.yml")}).exit_code, 0);
  std::string text = read_text_file(path("fitted.yml"));
  EXPECT_TRUE(
      text.starts_with("extends: base.yml   # ours\r\ntraining: {seed: 7}\r\nmemory:\r\n  limit: 24MiB\r\n"))
      << text;
  EXPECT_EQ(run_snug({"plan", path("fitted.yml")}).exit_code, 0);
}

// Regenerate, and read the difference:
//   cd tests/goldens/fits && ./make.sh
TEST(FitCases, TellTheirStories) {
  struct Case {
    std::string golden;
    std::vector<std::string> arguments;
    int exit_code;
  };
  const std::string kCases = "../../../recipes/cases/";
  for (const Case& one : {
           Case{"parsing.txt", {kCases + "parsing.yml", "--gpu", "quadro rtx 6000"}, 0},
           Case{"recipe_writing.txt", {kCases + "recipe_writing.yml", "--gpu", "5090"}, 3},
           Case{"recipe_writing_allowed.txt",
                {kCases + "recipe_writing.yml", "--gpu", "5090", "--allow", "training.optimizer_states"},
                0},
           Case{"security.txt",
                {kCases + "security.yml", "--gpu", "a6000", "--set", "memory.recompute=none"},
                0},
           Case{"compliance.txt", {kCases + "compliance.yml", "--device", "cuda"}, 3},
       }) {
    std::vector<std::string> arguments = {"fit"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    CommandResult result =
        run_snug(arguments, "cd " + shell_quoted(source_path("tests/goldens/fits")) + " && ");
    EXPECT_EQ(result.exit_code, one.exit_code) << one.golden << result.errors;
    EXPECT_EQ(result.output, read_text_file(source_path("tests/goldens/fits/" + one.golden))) << one.golden;
  }
}

}  // namespace
}  // namespace snug
