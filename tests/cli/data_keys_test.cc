// The data section's keys on the way through the program: a plan that knows the data, packs, groups, weights,
// a share kept for evaluation.
#include <gtest/gtest.h>

#include "support/run_snug.h"

namespace snug {
namespace {

const std::string kRecipe = source_path("recipes/ship_log.yml");

class DataKeys : public testing::Test {
 protected:
  // A few steps of the demo's recipe, with its tokens in the test's own folder.
  Json train(const std::vector<std::string>& settings, int64_t steps = 3) const {
    CommandResult result = run_snug(arguments("train", settings, steps));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    if (result.exit_code != 0) {
      return {};
    }
    Json summary = json_output(result);
    EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]);
    EXPECT_LE(summary["peak_used_bytes"].get<int64_t>(), summary["planned_bytes"].get<int64_t>());
    return summary;
  }
  std::vector<std::string> arguments(const std::string& command, const std::vector<std::string>& settings,
                                     int64_t steps) const {
    std::vector<std::string> all = {command, kRecipe, "--json"};
    if (command == "train") {
      all.emplace_back("--overwrite");  // tests train several times
    }
    std::vector<std::string> sets = {"output_dir=" + path("run"), "data.cache_dir=" + path("cache"),
                                     "training.eval_steps=0", "data.max_samples=48"};
    if (steps > 0) {
      sets.push_back("training.max_steps=" + std::to_string(steps));
    }
    sets.insert(sets.end(), settings.begin(), settings.end());
    for (const std::string& set : sets) {
      all.insert(all.end(), {"--set", set});
    }
    return all;
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  Json plan(const std::vector<std::string>& settings, bool with_data) const {
    std::vector<std::string> all = arguments("plan", settings, 0);
    all.insert(all.end(), {"--memory", "2GB"});
    if (with_data) {
      all.emplace_back("--data");
    }
    CommandResult result = run_snug(all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return parse_json(result.output, "output");
  }
  // Lines of the demo's own training data.
  std::string some_rows(const std::string& name, int count) const {
    std::string all = read_text_file(source_path("recipes/data/ship_log_train.jsonl"));
    size_t end = 0;
    for (int i = 0; i < count; ++i) {
      end = all.find('\n', end) + 1;
    }
    write_file_atomically(path(name), all.substr(0, end));
    return path(name);
  }

  TemporaryFolder folder_;
};

TEST_F(DataKeys, APlanWithTheDataIsWhatTrainingTakes) {
  auto peak = [](const Json& plan) { return plan["peak_bytes"].get<int64_t>(); };
  // So long that no batch of the data comes near it.
  std::vector<std::string> settings = {"data.max_length=512"};
  int64_t by_recipe = peak(plan(settings, false));
  Json with_data = plan(settings, true);
  EXPECT_LT(peak(with_data), by_recipe);
  // The copy that checkpoints are written from lies beside the device's memory.
  EXPECT_EQ(train(settings)["planned_bytes"], peak(with_data) + with_data["host_bytes"].get<int64_t>());
  for (const char* setting : {"data.max_length=20", "data.packing=true", "training.group_by_length=true"}) {
    EXPECT_LE(peak(plan({setting}, true)), peak(plan({setting}, false))) << setting;
  }
}

// By what is learned of the evaluation's rows, whatever the training's are.
TEST_F(DataKeys, EvaluationsAreExpectedByTheirOwnTargets) {
  auto seconds = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> all = arguments("plan", settings, 3);
    all.insert(all.end(), {"--data", "--gpu", "5090"});
    CommandResult result = run_snug(all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json_output(result)["run"]["evaluation_seconds"].get<double>();
  };
  double answers = seconds({});
  EXPECT_LT(answers, seconds({"data.train_on=everything"}));
  write_file_atomically(path("texts.jsonl"), "{\"text\": \"Day 99. Crew well.\"}\n");
  EXPECT_EQ(answers, seconds({"data.train_file=" + path("texts.jsonl")}));
}

TEST_F(DataKeys, PackingTrains) {
  // About 50 tokens a row: 8 packs of 192 tokens hold some 30 of them.
  std::vector<std::string> settings = {"data.train_file=" + some_rows("few.jsonl", 48), "data.eval_file=null",
                                       "training.num_train_epochs=1"};
  Json plain = train(settings, 0);
  EXPECT_EQ(plain["steps"], 6);
  settings.emplace_back("data.packing=true");
  Json packed = train(settings, 0);
  EXPECT_LE(packed["steps"].get<int64_t>(), 3);
  EXPECT_GE(packed["steps"].get<int64_t>(), 2);
  // The first loss is of the same model over much of the same text.
  EXPECT_NEAR(packed["first_loss"].get<double>(), plain["first_loss"].get<double>(), 0.5);
}

TEST_F(DataKeys, GroupingTrains) {
  Json grouped = train({"training.group_by_length=true"});
  Json plain = train({});
  EXPECT_EQ(grouped["steps"], 3);
  EXPECT_NE(grouped["last_loss"], plain["last_loss"]) << "other batches";
}

TEST_F(DataKeys, WeightsChangeTheLengthOfAnEpoch) {
  std::string file = some_rows("few.jsonl", 48);
  auto steps = [&](const std::string& weight) {
    return train({"data.train_file=[{path: " + file + ", weight: " + weight + "}]",
                  "training.num_train_epochs=1", "data.eval_file=null"},
                 0)["steps"];
  };
  EXPECT_EQ(steps("1"), 6);
  EXPECT_EQ(steps("2"), 12);
  EXPECT_EQ(steps("0.5"), 3);
}

TEST_F(DataKeys, AShareIsKeptForEvaluation) {
  std::string file = some_rows("few.jsonl", 48);
  Json summary = train({"data.train_file=" + file, "data.eval_file=null", "data.eval_split=0.5",
                        "training.num_train_epochs=1"},
                       0);
  EXPECT_EQ(summary["steps"], 3) << "24 of 48 rows, 8 a step";
  EXPECT_NE(read_text_file(path("run/metrics.jsonl")).find("\"eval_loss\":"), std::string::npos);
  CommandResult refused = run_snug(
      arguments("train", {"data.train_file=" + file, "data.eval_file=null", "data.eval_split=48"}, 1));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("leaves 0 examples to train on"), std::string::npos) << refused.errors;
}

TEST_F(DataKeys, TheCacheMakesNoDifferenceToTheRun) {
  Json first = train({"data.packing=true"});
  ASSERT_TRUE(std::filesystem::exists(path("cache")));
  Json second = train({"data.packing=true"});
  EXPECT_EQ(first["last_loss"], second["last_loss"]);
}

TEST_F(DataKeys, ABrokenRowStopsTheRunBeforeItBegins) {
  std::string file = some_rows("few.jsonl", 20);
  std::string content = read_text_file(file);
  write_file_atomically(file, content + "{\"prompt\": \n" + content);
  std::vector<std::string> settings = {"data.train_file=" + file, "data.eval_file=null"};
  CommandResult stopped = run_snug(arguments("train", settings, 1));
  EXPECT_EQ(stopped.exit_code, 2);
  EXPECT_NE(stopped.errors.find("few.jsonl:21: "), std::string::npos) << stopped.errors;
  settings.emplace_back("data.on_bad_row=skip");
  EXPECT_EQ(train(settings, 1)["steps"], 1);
}

}  // namespace
}  // namespace snug
