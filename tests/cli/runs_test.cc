// snug runs: what folders tell of runs, held against the files that the runs wrote.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "io/folder_lock.h"
#include "report/layout.h"
#include "support/child_snug.h"

namespace snug {
namespace {

class Runs : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::vector<std::string> arguments(const std::string& name,
                                     const std::vector<std::string>& settings) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"), "--device", "cpu"};
    for (const std::string& set : {"output_dir=" + path("runs/" + name), "data.cache_dir=" + path("cache"),
                                   std::string("logging.logging_steps=1")}) {
      all.insert(all.end(), {"--set", set});
    }
    for (const std::string& set : settings) {
      all.insert(all.end(), {"--set", set});
    }
    return all;
  }
  void train(const std::string& name, const std::vector<std::string>& settings) const {
    CommandResult result = run_snug(arguments(name, settings));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  Json list() const { return json_output(run_snug({"runs", path("runs"), "--json"})); }
  static Json find(const Json& list, const std::string& name) {
    for (const Json& run : list["runs"]) {
      if (run["name"] == name) {
        return run;
      }
    }
    ADD_FAILURE() << name << " is not in " << list.dump(2);
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(Runs, FinishedOnesAreAsTheirFilesSay) {
  train("slow", {"training.max_steps=4", "training.eval_steps=2", "training.learning_rate=1e-5"});
  train("fast", {"training.max_steps=3", "training.eval_steps=0", "training.learning_rate=4e-3"});
  Json all = list();
  ASSERT_EQ(all["runs"].size(), 2U) << all.dump(2);
  Json slow = find(all, "slow");
  Json summary = read_json(path("runs/slow/summary.json"));
  EXPECT_EQ(slow["state"], "finished");
  EXPECT_EQ(slow["steps"], 4);
  EXPECT_EQ(slow["total_steps"], summary["total_steps"]);
  EXPECT_EQ(slow["first_loss"], summary["first_loss"]);
  EXPECT_EQ(slow["last_loss"], summary["last_loss"]);
  double best = 1e9;
  for (const Json& evaluation : summary["evaluations"]) {
    best = std::min(best, evaluation["eval_loss"].get<double>());
  }
  EXPECT_EQ(slow["best_eval_loss"], best);
  EXPECT_EQ(slow["trainable_parameters"], summary["trainable_parameters"]);
  EXPECT_EQ(slow["peak_bytes"], read_json(path("runs/slow/plan.json"))["peak_bytes"]);
  EXPECT_GT(slow["tokens_per_second"].get<double>(), 0);
  Json only = read_json(path("runs/fast/summary.json"))["evaluations"];
  ASSERT_EQ(only.size(), 1U) << "at the end";
  EXPECT_EQ(find(all, "fast")["best_eval_loss"], only[0]["eval_loss"]);

  std::map<std::string, Json> values;
  for (const Json& setting : all["settings"]) {
    values[setting["key"]] = setting["values"];
  }
  size_t slow_place = all["runs"][0]["name"] == "slow" ? 0 : 1;
  ASSERT_TRUE(values.contains("training.learning_rate")) << all["settings"];
  EXPECT_EQ(values["training.learning_rate"][slow_place], 1e-5);
  EXPECT_EQ(values["training.learning_rate"][1 - slow_place], 4e-3);
  EXPECT_EQ(values.size(), 3U) << all["settings"] << "learning rate, steps, evaluations";

  // For people: no line is wider than the terminal, and piped there is a line a run.
  CommandResult narrow = run_snug({"runs", path("runs")}, "COLUMNS=80 ");
  std::istringstream lines(narrow.output);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(display_width(line), 80U) << line;
  }
  CommandResult piped = run_snug({"runs", path("runs/slow"), path("runs/fast")});
  EXPECT_NE(piped.output.find("finished"), std::string::npos) << piped.output;
  EXPECT_NE(piped.output.find("training.learning_rate"), std::string::npos) << piped.output;
  EXPECT_EQ(piped.output.find('\033'), std::string::npos) << "no colours in a pipe";
}

TEST_F(Runs, RunningStoppedKilledAndBrokenOnesAreToldApart) {
  ChildSnug child(arguments("long", {"training.max_steps=1000000", "training.eval_steps=0"}), path("log"));
  child.wait_until([&] {
    return std::filesystem::exists(path("runs/long/metrics.jsonl")) &&
           std::filesystem::file_size(path("runs/long/metrics.jsonl")) > 0;
  });
  Json running = find(list(), "long");
  EXPECT_EQ(running["state"], "running") << child.output();
  EXPECT_EQ(running["total_steps"], 1000000);
  child.send(SIGINT);
  EXPECT_EQ(child.wait(), 4) << child.output();
  Json stopped = find(list(), "long");
  EXPECT_EQ(stopped["state"], "stopped");
  EXPECT_EQ(stopped["can_be_resumed"], true);

  // One that was killed before it saved anything, a file that is no JSON, and somebody else's manifest.
  for (const char* name : {"killed", "torn", "stranger"}) {
    std::filesystem::create_directories(path(std::string("runs/") + name));
  }
  for (const char* file : {"recipe.yml", "plan.json"}) {
    std::filesystem::copy(path(std::string("runs/long/") + file), path(std::string("runs/killed/") + file));
  }
  write_file_atomically(path("runs/killed/manifest.json"), R"({"made_by": "snug", "state": "running"})");
  write_file_atomically(path("runs/torn/manifest.json"), R"({"made_by": "sn)");
  write_file_atomically(path("runs/stranger/manifest.json"), R"({"short_name": "a web page"})");
  Json all = list();
  EXPECT_EQ(find(all, "killed")["state"], "failed");
  EXPECT_EQ(all["runs"].size(), 2U) << all.dump(2);
  ASSERT_EQ(all["unreadable"].size(), 1U);
  EXPECT_NE(all["unreadable"][0]["problem"].get<std::string>().find("torn/manifest.json"), std::string::npos);
  CommandResult text = run_snug({"runs", path("runs")});
  EXPECT_EQ(text.exit_code, 0);
  for (const char* word : {"stopped", "--resume", "failed", "torn", "without a checkpoint"}) {
    EXPECT_NE(text.output.find(word), std::string::npos) << word << "\n" << text.output;
  }
}

TEST_F(Runs, StagesAreListedOneByOne) {
  CommandResult trained = run_snug({"train", source_path("recipes/three_stages.yml"), "--device", "cpu",
                                    "--set", "output_dir=" + path("runs/three"), "--set",
                                    "data.cache_dir=" + path("cache"), "--set", "training.max_steps=2"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  Json all = list();
  for (const char* stage : {"three/log", "three/bill", "three/letter"}) {
    EXPECT_EQ(find(all, stage)["state"], "finished");
  }
  EXPECT_NE(read_text_file(path("runs/three/README.md")).find("# three/letter\n"), std::string::npos);
  CommandResult same = run_snug({"diff", path("runs/three"), path("runs/three")});
  EXPECT_EQ(same.exit_code, 0) << "a stage has the largest one's arena: " << same.errors;
}

TEST_F(Runs, NoRunsAreNoError) {
  std::filesystem::create_directories(path("runs"));
  CommandResult result = run_snug({"runs", path("runs")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("no run of snug"), std::string::npos) << result.output;
  EXPECT_EQ(list()["runs"], Json::array());
  result = run_snug({"runs"}, "cd " + shell_quoted(folder_.path().string()) + "/runs && ");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  result = run_snug({"runs", path("nowhere")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("nowhere"), std::string::npos) << result.errors;
}

// Who looks does not keep a run out.
TEST_F(Runs, LookingAtALockDoesNotHoldIt) {
  EXPECT_FALSE(is_folder_locked(folder_.path()));
  FolderLock lock(folder_.path());
  EXPECT_FALSE(lock.is_held_elsewhere());
  EXPECT_TRUE(is_folder_locked(folder_.path()));
  EXPECT_TRUE(FolderLock(folder_.path()).is_held_elsewhere());
}

}  // namespace
}  // namespace snug
