// What TensorBoard is given: the scalars of metrics.jsonl, each step once, over resumes too.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "support/event_reader.h"
#include "support/run_snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class Tensorboard : public testing::Test {
 protected:
  fs::path run() const { return folder_.path() / "run"; }

  CommandResult train(const std::vector<std::string>& settings,
                      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"), "--json"};
    for (const std::string& set :
         {"output_dir=" + run().string(), "data.cache_dir=" + (folder_.path() / "cache").string(),
          std::string("data.max_samples=48"), std::string("logging.logging_steps=1"),
          std::string("training.max_steps=6"), std::string("training.warmup_ratio=0"),
          std::string("training.eval_steps=2"), std::string("training.save_steps=3")}) {
      all.insert(all.end(), {"--set", set});
    }
    for (const std::string& set : settings) {
      all.insert(all.end(), {"--set", set});
    }
    all.insert(all.end(), more.begin(), more.end());
    return run_snug(all);
  }
  std::vector<fs::path> event_files() const {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run())) {
      if (entry.path().filename().string().find("tfevents") != std::string::npos) {
        found.push_back(entry.path());
      }
    }
    return found;
  }
  // Every number of metrics.jsonl is there at its step and time, in its order, and nothing else is.
  void expect_scalars_of_metrics() const {
    ASSERT_EQ(event_files().size(), 1U);
    EventFile events = read_event_file(read_text_file(event_files().front()));
    std::map<std::string, size_t> taken;
    std::ifstream file(run() / "metrics.jsonl");
    size_t rows = 0;
    for (std::string line; std::getline(file, line); ++rows) {
      Json row = parse_json(line, "metrics.jsonl");
      for (const auto& [name, value] : row.items()) {
        if (name == "step" || name == "time") {
          continue;
        }
        std::string tag = name.starts_with("eval_") ? "eval/" + name.substr(5) : "train/" + name;
        size_t at = taken[tag]++;
        ASSERT_LT(at, events.scalars[tag].size()) << tag;
        const EventFile::Point& point = events.scalars[tag][at];
        EXPECT_EQ(point.step, row["step"].get<int64_t>()) << tag;
        EXPECT_EQ(point.value, static_cast<float>(value.get<double>())) << tag << " at " << point.step;
        EXPECT_EQ(point.wall_time, row["time"].get<double>()) << tag;
      }
    }
    EXPECT_GT(rows, 6U);
    for (const auto& [tag, points] : events.scalars) {
      EXPECT_EQ(points.size(), taken[tag]) << tag;
    }
  }

  TemporaryFolder folder_;
};

TEST_F(Tensorboard, ShowsWhatMetricsHas) {
  ASSERT_EQ(train({}).exit_code, 0);
  expect_scalars_of_metrics();
  EventFile events = read_event_file(read_text_file(event_files().front()));
  EXPECT_EQ(std::bit_cast<double>(field_of(events.settings["training.max_steps"], 2).bits), 6);
  EXPECT_EQ(field_of(events.settings["training.optim"], 3).bytes, "adamw");
  EXPECT_EQ(events.ended, 1);
  Json manifest = read_json(run() / "manifest.json");
  std::string name = event_files().front().filename().string();
  EXPECT_NE(std::find(manifest["files"].begin(), manifest["files"].end(), name), manifest["files"].end());
}

// Steps 4 to 6 were there before it went back to step 3, under a name of another second.
TEST_F(Tensorboard, ShowsNoStepTwiceAfterAResume) {
  ASSERT_EQ(train({}).exit_code, 0);
  fs::path before = event_files().front();
  fs::path older = run() / "events.out.tfevents.0000000001.elsewhere";
  std::string manifest = read_text_file(run() / "manifest.json");
  manifest.replace(manifest.find(before.filename().string()), before.filename().string().size(),
                   older.filename().string());
  write_file_atomically(run() / "manifest.json", manifest);
  fs::rename(before, older);
  ASSERT_EQ(train({}, {"--resume=" + (run() / "checkpoint-3").string()}).exit_code, 0);
  EXPECT_FALSE(fs::exists(older));
  expect_scalars_of_metrics();
}

TEST_F(Tensorboard, IsNotWrittenWhereNobodyAsks) {
  ASSERT_EQ(train({"logging.report_to=none"}).exit_code, 0);
  EXPECT_TRUE(event_files().empty());
}

}  // namespace
}  // namespace snug
