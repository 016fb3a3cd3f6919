// snug diff: recipes and runs side by side.
#include <gtest/gtest.h>

#include "support/run_snug.h"

namespace snug {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Json diff_json(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"diff", "--json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return json_output(run_snug(all));
}

// Where a few steps of the demo went.
std::string train(const TemporaryFolder& folder, const std::string& name, const std::string& rate) {
  std::string output = (folder.path() / name).string();
  CommandResult result = run_snug({"train", source_path("recipes/ship_log.yml"), "--device", "cpu", "--set",
                                   "output_dir=" + output, "--set", "training.max_steps=3", "--set",
                                   "logging.logging_steps=1", "--set", "training.learning_rate=" + rate});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return output;
}

// Two projects "on the same 7B model": one trained, the other ran out of memory. After a change that is meant
// to alter it (from a build without CUDA):
//   cd recipes; snug diff cases/parsing.yml cases/parsing_mtup.yml --gpu "Quadro RTX 6000" > FILE
TEST(Diff, TheRiddleOfCase1) {
  CommandResult result =
      run_snug({"diff", "cases/parsing.yml", "cases/parsing_mtup.yml", "--gpu", "Quadro RTX 6000"},
               "cd " + shell_quoted(source_path("recipes")) + " && ");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, read_text_file(source_path("tests/goldens/diffs/parsing.txt")));
  // Published: what the log counted is 7.20% of the 3B model.
  for (const char* figure : {"322,961,408", "239,468,544", "7.20%", "3,085,938,688"}) {
    EXPECT_NE(result.output.find(figure), std::string::npos) << figure;
  }
}

TEST(Diff, TheFirstLineSaysWhyOneDoesNotFit) {
  TemporaryFolder folder;
  std::string recipe = source_path("recipes/cases/compliance.yml");
  std::string other = (folder.path() / "bf16.yml").string();
  std::string text = read_text_file(recipe);
  text.replace(text.find("dtype: fp32"), 11, "dtype: bf16");
  write_file_atomically(other, text);
  CommandResult result = run_snug({"diff", recipe, other, "--device", "cuda"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  std::string line = first_line(result.output);
  EXPECT_NE(line.find("B needs"), std::string::npos) << line;
  EXPECT_NE(line.find("fits into 22.30 GiB; A needs"), std::string::npos) << line;
  // 6,910,365,696 parameters: two bytes more each.
  EXPECT_NE(line.find("A has more base weights 12.87 GiB"), std::string::npos) << line;
}

// Fitted alike by hand: what dropout keeps is what differs.
TEST(Diff, AnActivationIsNamedByItsBuffer) {
  TemporaryFolder folder;
  auto write = [&](const std::string& name, const std::string& dropout) {
    std::string text = read_text_file(source_path("recipes/cases/parsing.yml"));
    text.replace(text.find("lora_dropout: 0.05"), 18, "lora_dropout: " + dropout);
    text += "  recompute: none\n  loss_chunk_tokens: 128\n  micro_batch_tokens: 2048\n";
    write_file_atomically(folder.path() / name, text);
    return (folder.path() / name).string();
  };
  CommandResult result =
      run_snug({"diff", write("without.yml", "0"), write("with.yml", "0.05"), "--device", "cuda"});
  std::string line = first_line(result.output);
  EXPECT_NE(line.find("B has more kept activations"), std::string::npos) << line << result.errors;
  EXPECT_NE(line.find("lora_dropout"), std::string::npos) << line;
}

TEST(Diff, ARecipeIsEqualToItself) {
  std::string recipe = source_path("recipes/cases/security.yml");
  CommandResult result = run_snug({"diff", recipe, recipe, "--gpu", "a6000"});
  EXPECT_EQ(first_line(result.output).rfind("  A and B are equal: no setting and no byte differs.", 0), 0U)
      << result.output;
  Json json = diff_json({recipe, recipe, "--gpu", "a6000"});
  EXPECT_EQ(json["same"], true);
  EXPECT_EQ(json["stages"].size(), 3U);
}

TEST(Diff, RunsAreComparedByWhatTheyLeft) {
  TemporaryFolder folder;
  std::string slow = train(folder, "slow", "1e-4");
  std::string fast = train(folder, "fast", "4e-3");
  Json json = diff_json({slow, fast});
  const Json& stage = json["stages"][0];
  ASSERT_EQ(stage["settings"].size(), 1U) << stage["settings"];
  EXPECT_EQ(stage["settings"][0], Json({{"key", "training.learning_rate"}, {"a", 1e-4}, {"b", 4e-3}}));
  const Json& a = stage["a"]["run"];
  const Json& b = stage["b"]["run"];
  EXPECT_EQ(a["origin"], b["origin"]);
  EXPECT_EQ(a["origin"]["device"], "cpu");
  EXPECT_FALSE(a["origin"]["version"].get<std::string>().empty());
  EXPECT_FALSE(a["origin"]["model"].get<std::string>().empty());
  EXPECT_FALSE(a["origin"]["train_data"].get<std::string>().empty());
  EXPECT_EQ(a["steps"], 3);
  EXPECT_EQ(a["first_loss"], b["first_loss"]) << "before anything is learned";
  EXPECT_GT(a["last_loss"].get<double>(), b["last_loss"].get<double>());
  EXPECT_GT(a["tokens_per_second"].get<double>(), 0);
  Json plan = read_json(slow + "/plan.json");
  EXPECT_EQ(stage["a"]["peak_bytes"], plan["peak_bytes"]);
  for (const auto& [role, bytes] : plan["roles"].items()) {
    EXPECT_EQ(stage["a"]["roles"][role], bytes) << role;
  }

  // What is in a folder may be anybody's.
  write_file_atomically(fast + "/plan.json", "{\"phases\": 3}");
  CommandResult broken = run_snug({"diff", slow, fast});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_NE(broken.errors.find("phases"), std::string::npos) << broken.errors;
}

// A run's recipe has every key and absolute paths; it is still the recipe that it was made of.
TEST(Diff, ARunAndItsRecipeHaveTheSameSettings) {
  TemporaryFolder folder;
  std::string run = train(folder, "run", "4e-3");
  Json json = diff_json({source_path("recipes/ship_log.yml"), run});
  for (const Json& setting : json["stages"][0]["settings"]) {
    std::string key = setting["key"];
    EXPECT_TRUE(key == "training.max_steps" || key == "logging.logging_steps") << setting;
  }
}

TEST(Diff, FoldersWithoutARunAreRefused) {
  CommandResult result = run_snug({"diff", source_path("recipes"), source_path("recipes/ship_log.yml")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("no run of snug"), std::string::npos) << result.errors;
  result = run_snug(
      {"diff", source_path("recipes/ship_log.yml"), source_path("recipes/ship_log.yml"), "--memory", "much"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("expected a size"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace snug
