// Ways in which a run ends that nobody planned: signals, readers that go away, disks that fill. What was
// learned is saved.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "support/child_snug.h"

namespace snug {
namespace {

class Ending : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string run_file(const std::string& name) const { return path("run/" + name); }

  // A run that would take hours, unless there is a number of steps.
  std::vector<std::string> arguments(const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml")};
    for (const std::string& set :
         {"output_dir=" + path("run"), "data.cache_dir=" + path("cache"),
          std::string("logging.logging_steps=1"), std::string("training.max_steps=1000000"),
          std::string("training.eval_steps=0")}) {
      all.insert(all.end(), {"--set", set});
    }
    for (const std::string& set : settings) {
      all.insert(all.end(), {"--set", set});
    }
    return all;
  }
  bool has_steps() const { return lines_of(run_file("metrics.jsonl")) >= 2; }
  static int64_t lines_of(const std::string& file) {
    std::ifstream stream(file);
    return std::count(std::istreambuf_iterator<char>(stream), {}, '\n');
  }
  void expect_saved() const {
    Json summary = read_json(run_file("summary.json"));
    EXPECT_GT(summary["updates"].get<int64_t>(), 0);
    bool has_result = std::filesystem::exists(run_file("adapter_config.json"));
    std::string adapter = has_result ? path("run") : summary["checkpoint"].get<std::string>();
    CommandResult text = run_snug({"generate", source_path("models/tiny-story"), "--adapter", adapter,
                                   "--prompt", "Log: fox", "--max-new-tokens", "1"});
    EXPECT_EQ(text.exit_code, 0) << text.errors;
  }
  void expect_saved_after(int signal_number) {
    ChildSnug child(arguments(), path("log"));
    child.wait_until([&] { return has_steps(); });
    child.send(signal_number);
    EXPECT_EQ(child.wait(), 4) << child.output();
    EXPECT_EQ(read_json(run_file("summary.json"))["interrupted"], true);
    EXPECT_EQ(read_json(run_file("manifest.json"))["state"], "stopped");
    expect_saved();
  }

  TemporaryFolder folder_;
};

TEST_F(Ending, InterruptSaves) {
  expect_saved_after(SIGINT);
}
// What is said to go on with can be pasted, and counts with as many threads: sums are rounded the same.
TEST_F(Ending, TheCommandToGoOnIsWhatAShellReads) {
  std::filesystem::create_directory(path("two words"));
  std::string output = path("two words/run");
  std::vector<std::string> given = arguments({"output_dir=" + output});
  given.insert(given.end(), {"--threads", "1"});
  ChildSnug child(given, path("log"));
  child.wait_until([&] { return lines_of(output + "/metrics.jsonl") >= 2; });
  child.send(SIGINT);
  EXPECT_EQ(child.wait(), 4) << child.output();
  std::string said = child.output();
  size_t begin = said.find("go on  snug ");
  ASSERT_NE(begin, std::string::npos) << said;
  std::string line = said.substr(begin + 7, said.find('\n', begin) - begin - 7);
  EXPECT_NE(line.find("--threads 1 "), std::string::npos) << line;
  EXPECT_NE(line.find(" --set 'output_dir=" + output + "' "), std::string::npos) << line;
  CommandResult runs = run_snug({"runs", path("two words")});
  EXPECT_NE(runs.output.find("snug train '" + output + "/recipe.yml' --resume"), std::string::npos)
      << runs.output;
}
TEST_F(Ending, TerminationSaves) {
  expect_saved_after(SIGTERM);
}
TEST_F(Ending, HangUpSaves) {
  expect_saved_after(SIGHUP);
}
TEST_F(Ending, UserSignalSaves) {
  expect_saved_after(SIGUSR1);
}

// The checkpoint that the first signal asks for cannot be finished: a file that goes along with it is a pipe
// that nobody writes to. The second ends the run all the same, whichever it is, and what was saved before is
// gone on from.
TEST_F(Ending, ASecondSignalEndsAtOnce) {
  std::filesystem::copy(source_path("models/tiny-story"), path("model"));
  std::string copied = path("model/generation_config.json");
  std::vector<std::string> settings = {"lora=null", "model.path=" + path("model"), "training.save_steps=2"};
  for (int second : {SIGTERM, SIGINT}) {
    write_file_atomically(copied, "{}\n");
    ChildSnug child(arguments(settings), path("log"));
    child.wait_until([&] { return std::filesystem::exists(run_file("checkpoint-2")); });
    std::filesystem::remove(copied);
    ASSERT_EQ(mkfifo(copied.c_str(), 0600), 0);
    EXPECT_TRUE(child.catches(SIGTERM)) << child.output();
    child.send(SIGTERM);
    child.wait_until([&] { return !child.catches(SIGTERM); });
    child.send(second);
    EXPECT_EQ(child.wait(), 128 + second) << child.output();
    std::filesystem::remove(copied);
    write_file_atomically(copied, "{}\n");
    std::vector<std::string> again = arguments(settings);
    again.insert(again.end(), {"--set", "training.max_steps=4", "--resume"});
    CommandResult resumed = run_snug(again);
    EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_EQ(resumed.errors.find("warning"), std::string::npos) << resumed.errors;
    EXPECT_NE(resumed.output.find("going on from"), std::string::npos) << resumed.output;
    std::filesystem::remove_all(path("run"));
  }
}

TEST_F(Ending, ASignalThatWasIgnoredAtTheStartStaysIgnored) {
  ChildSnug child(arguments(), path("log"), [] { signal(SIGHUP, SIG_IGN); });
  child.wait_until([&] { return has_steps(); });
  child.send(SIGHUP);
  int64_t then = lines_of(run_file("metrics.jsonl"));
  child.wait_until([&] { return lines_of(run_file("metrics.jsonl")) > then + 3; });
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 4) << child.output();
}

// The weights are there while the last evaluation still runs, and a signal ends that evaluation.
TEST_F(Ending, SavesBeforeItEvaluates) {
  std::string many;
  std::string rows = read_text_file(source_path("recipes/data/ship_log_train.jsonl"));
  for (int i = 0; i < 40; ++i) {
    many += rows;
  }
  write_file_atomically(path("many.jsonl"), many);
  ChildSnug child(arguments({"training.max_steps=2", "data.eval_file=" + path("many.jsonl"),
                             "training.per_device_eval_batch_size=1"}),
                  path("log"));
  child.wait_until([&] { return std::filesystem::exists(run_file("adapter_config.json")); });
  EXPECT_FALSE(std::filesystem::exists(run_file("summary.json")));
  child.send(SIGINT);
  EXPECT_EQ(child.wait(), 4) << child.output();
  EXPECT_TRUE(read_json(run_file("summary.json"))["evaluations"].empty());
  expect_saved();
}

TEST_F(Ending, AReaderThatGoesAwayDoesNotEndTheRun) {
  std::string command;
  for (const std::string& argument : arguments({"training.max_steps=5"})) {
    command += " " + shell_quoted(argument);
  }
  std::string status = path("status");
  command =
      "(" + shell_quoted(SNUG_BINARY) + command + "; echo $? >" + shell_quoted(status) + ") 2>&1 | head -1";
  ASSERT_EQ(std::system((command + " >/dev/null").c_str()), 0);
  EXPECT_EQ(read_text_file(status), "0\n");
  EXPECT_EQ(read_json(run_file("summary.json"))["steps"], 5);
  expect_saved();
}

// Standard output is a file that has reached the limit on files.
TEST_F(Ending, OutputBeyondTheLimitOnFilesDoesNotEndTheRun) {
  ChildSnug child(arguments({"training.max_steps=3"}), path("log"), [] {
    constexpr off_t kLimit = 8 << 20;  // more than the largest file of a checkpoint
    rlimit limit{.rlim_cur = kLimit, .rlim_max = kLimit};
    bool ready = ftruncate(1, kLimit) == 0 && lseek(1, 0, SEEK_END) == kLimit;
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
    if (!ready) {
      _exit(126);
    }
  });
  EXPECT_EQ(child.wait(), 0);
  expect_saved();
}

class FullDisk : public Ending {
 protected:
  // To the last byte, whatever was taken away meanwhile.
  void fill_disk() const {
    std::ofstream filler(path("disk/filler"), std::ios::binary | std::ios::app);
    std::string piece(4096, 'x');
    while (filler.write(piece.data(), 4096).flush()) {
    }
  }
  void mount_disk(const char* size) {
    std::filesystem::create_directory(path("disk"));
    std::string options = std::string("size=") + size;
    if (::mount("tmpfs", path("disk").c_str(), "tmpfs", 0, options.c_str()) != 0) {
      GTEST_SKIP() << "a small disk of its own needs the right to mount (root)";
    }
    mounted_ = true;
    std::filesystem::create_directory_symlink(path("disk/run"), path("run"));
    std::filesystem::create_directory(path("disk/run"));
  }
  void TearDown() override {
    if (mounted_) {
      ::umount(path("disk").c_str());
    }
  }
  bool mounted_ = false;
};

TEST_F(FullDisk, IsKnownBeforeTheFirstStep) {
  mount_disk("600k");  // the adapter has 962,560 bytes
  if (!mounted_) {
    return;
  }
  ChildSnug child(arguments({"training.max_steps=3"}), path("log"));
  EXPECT_EQ(child.wait(), 1);
  EXPECT_NE(child.output().find("adapter_model.safetensors"), std::string::npos) << child.output();
  EXPECT_NE(child.output().find("disk full"), std::string::npos) << child.output();
  EXPECT_EQ(child.output().find("loss"), std::string::npos) << child.output();
}

TEST_F(FullDisk, ThatFillsWhileTheRunGoesOnLeavesRoomForTheResult) {
  mount_disk("40m");
  if (!mounted_) {
    return;
  }
  ChildSnug child(arguments(), path("log"));
  child.wait_until([&] { return has_steps(); });
  fill_disk();
  child.wait_until([&] { return child.output().find("goes on without these rows") != std::string::npos; });
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 4) << child.output();
  EXPECT_GT(read_json(run_file("summary.json"))["metrics_rows_lost"].get<int64_t>(), 0);
  std::string metrics = read_text_file(run_file("metrics.jsonl"));
  EXPECT_TRUE(metrics.ends_with("\n"));
  expect_saved();
}

// While a checkpoint is written beside the steps: they go on, and the last good one is what the run goes on
// from.
TEST_F(FullDisk, InACheckpointLeavesTheOneBefore) {
  mount_disk("40m");
  if (!mounted_) {
    return;
  }
  const std::vector<std::string> settings = {"training.save_steps=3"};
  std::string last_good;
  {
    ChildSnug child(arguments(settings), path("log"));
    child.wait_until([&] { return std::filesystem::exists(run_file("checkpoint-3")); });
    auto failures = [&] {
      std::string output = child.output();
      std::vector<std::string> found;
      constexpr std::string_view kWords = "was not saved";
      for (size_t at = output.find(kWords); at != std::string::npos; at = output.find(kWords, at + 1)) {
        found.push_back(output.substr(at, output.find("is as it was", at) - at));
      }
      return found;
    };
    child.wait_until([&] {
      fill_disk();
      return failures().size() >= 2;  // the second is of a later step: training goes on
    });
    ASSERT_GE(failures().size(), 2U) << child.output();
    std::string told = failures().back();
    EXPECT_NE(told.find("disk full"), std::string::npos) << child.output();
    last_good = told.substr(told.rfind("checkpoint-"));
    last_good = last_good.substr(0, last_good.find_first_of(" \n"));
  }  // killed
  ASSERT_TRUE(std::filesystem::exists(run_file(last_good))) << last_good;
  std::filesystem::remove(path("disk/filler"));
  int64_t step = std::stoll(last_good.substr(last_good.find('-') + 1));
  std::vector<std::string> again = arguments(settings);
  again.insert(again.end(), {"--set", "training.max_steps=" + std::to_string(step + 1), "--resume"});
  ChildSnug child(again, path("log"));
  EXPECT_EQ(child.wait(), 0) << child.output();
  EXPECT_NE(child.output().find(last_good + ", step"), std::string::npos) << child.output();
  EXPECT_EQ(read_json(run_file("summary.json"))["steps"], step + 1);
}

}  // namespace
}  // namespace snug
