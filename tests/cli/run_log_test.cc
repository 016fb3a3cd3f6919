// run.log: every line has its time, and says what ran, by which plan, and how it went.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "base/bytes.h"
#include "support/run_snug.h"

namespace snug {
namespace {

class Log : public testing::Test {
 protected:
  CommandResult train(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"), "--json"};
    for (const std::string& set :
         {"output_dir=" + (folder_.path() / "run").string(),
          "data.cache_dir=" + (folder_.path() / "cache").string(), std::string("data.max_samples=48"),
          std::string("logging.logging_steps=2"), std::string("training.max_steps=6"),
          std::string("training.warmup_ratio=0"), std::string("training.eval_steps=3"),
          std::string("training.save_steps=3")}) {
      all.insert(all.end(), {"--set", set});
    }
    all.insert(all.end(), more.begin(), more.end());
    return run_snug(all);
  }
  std::vector<std::string> lines() const {
    std::istringstream text(read_text_file(folder_.path() / "run/run.log"));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) {
      all.push_back(line);
    }
    return all;
  }
  static int count(const std::vector<std::string>& lines, const std::string& expression) {
    int found = 0;
    for (const std::string& line : lines) {
      found += std::regex_search(line, std::regex(expression)) ? 1 : 0;
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(Log, TellsTheRun) {
  ASSERT_EQ(train({}).exit_code, 0);
  std::vector<std::string> all = lines();
  for (const std::string& line : all) {
    EXPECT_TRUE(std::regex_search(line, std::regex("^20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ  .")))
        << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
  }
  EXPECT_EQ(count(all, "  the run begins$"), 1);
  EXPECT_EQ(count(all, "  snug \\d"), 1);
  EXPECT_EQ(count(all, "base weights"), 1);  // of the plan
  EXPECT_EQ(count(all, "  step [1246]/6  loss .* tok/s  data wait .*%  memory "), 4);
  EXPECT_EQ(count(all, "  evaluation step [36]: loss "), 2);
  EXPECT_EQ(count(all, "  saving checkpoint-3$"), 1);
  EXPECT_EQ(count(all, "  done: 6 of 6 steps, 6 updates"), 1);
  Json summary = read_json(folder_.path() / "run/summary.json");
  std::string planned = format_count(summary["planned_bytes"].get<int64_t>());
  EXPECT_EQ(count(all, "  memory: " + planned + " planned, "), 2);
}

TEST_F(Log, GoesOnBelowWhatItHas) {
  ASSERT_EQ(train({}).exit_code, 0);
  std::vector<std::string> before = lines();
  ASSERT_EQ(train({"--resume=" + (folder_.path() / "run/checkpoint-3").string()}).exit_code, 0);
  std::vector<std::string> all = lines();
  ASSERT_GT(all.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), all.begin()));
  EXPECT_NE(all[before.size()].find("the run goes on"), std::string::npos);
}

}  // namespace
}  // namespace snug
