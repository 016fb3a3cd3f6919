// The output folder: nothing in it is overwritten or mixed unless that is asked for.
#include <gtest/gtest.h>

#include <set>

#include "support/child_snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class OutputFolder : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string run_file(const std::string& name) const { return path("run/" + name); }

  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"),
                                    "--set", "output_dir=" + path("run"),
                                    "--set", "data.cache_dir=" + path("cache"),
                                    "--set", "training.max_steps=1",
                                    "--set", "data.eval_file=null",
                                    "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  CommandResult train(const std::vector<std::string>& more = {}) const { return run_snug(arguments(more)); }

  static void expect_refused(const CommandResult& result, const std::vector<std::string>& words) {
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    for (const std::string& word : words) {
      EXPECT_NE(result.errors.find(word), std::string::npos) << word << " is not in: " << result.errors;
    }
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path("run"))) {
      std::string name = entry.path().filename().string();
      bool is_event_file = name.starts_with("events.out.tfevents.");  // then the time and the machine
      found.insert(is_event_file ? "events" : name);
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(OutputFolder, ASecondRunIsRefusedUnlessItMayOverwrite) {
  ASSERT_EQ(train().exit_code, 0);
  EXPECT_EQ(names(),
            (std::set<std::string>{"recipe.yml", "plan.json", "metrics.jsonl", "summary.json",
                                   "manifest.json", "adapter_config.json", "adapter_model.safetensors",
                                   "checkpoint-1", "events", "run.log", "README.md"}));
  Json manifest = read_json(run_file("manifest.json"));
  EXPECT_EQ(manifest["state"], "complete");
  // Beside what it lists: itself, and the checkpoint, which has its own. One step makes no curve.
  EXPECT_EQ(manifest["files"].size() + 2, names().size() + 1);
  std::string before = read_text_file(run_file("recipe.yml"));
  write_file_atomically(run_file("notes.txt"), "mine");

  expect_refused(train({"--set", "lora.r=4"}), {path("run"), "holds a run", "output_dir", "--overwrite"});
  EXPECT_EQ(read_text_file(run_file("recipe.yml")), before);

  // Full fine-tuning after LoRA leaves one result, and what snug did not write.
  ASSERT_EQ(train({"--set", "lora=null", "--overwrite"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(run_file("adapter_model.safetensors")));
  EXPECT_FALSE(fs::exists(run_file("adapter_config.json")));
  EXPECT_TRUE(fs::exists(run_file("model.safetensors")));
  EXPECT_EQ(read_text_file(run_file("notes.txt")), "mine");
}

TEST_F(OutputFolder, TheModelsOwnFolderIsNoOutputFolder) {
  fs::copy(source_path("models/tiny-story"), path("run"));
  std::string weights = read_text_file(run_file("model.safetensors"));
  for (const char* lora : {"lora=null", "lora={r: 4}"}) {
    expect_refused(train({"--set", "model.path=" + path("run"), "--set", lora, "--overwrite"}),
                   {"folder of the model", "output_dir"});
  }
  EXPECT_EQ(read_text_file(run_file("model.safetensors")), weights);
  EXPECT_FALSE(fs::exists(run_file("recipe.yml")));
}

TEST_F(OutputFolder, FilesThatNoRunWroteAreNotMixedWithOrRemoved) {
  fs::create_directory(path("run"));
  write_file_atomically(run_file("model-00001-of-00002.safetensors"), "weights");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--overwrite"}}) {
    expect_refused(train(more), {"model-00001-of-00002.safetensors", "output_dir"});
  }
  EXPECT_EQ(names().size(), 1U);
  // A manifest from elsewhere does not reach beyond its folder.
  write_file_atomically(path("precious"), "keep");
  fs::remove(run_file("model-00001-of-00002.safetensors"));
  Json manifest = {{"made_by", "snug"},
                   {"state", "complete"},
                   {"files", {"../precious", path("precious"), "..", "", "summary.json"}}};
  write_file_atomically(run_file("manifest.json"), manifest.dump());
  write_file_atomically(run_file("summary.json"), "{}");
  ASSERT_EQ(train({"--overwrite"}).exit_code, 0);
  EXPECT_EQ(read_text_file(path("precious")), "keep");
}

TEST_F(OutputFolder, TwoProcessesAreNotInOneFolder) {
  ChildSnug child(arguments({"--set", "training.max_steps=1000000", "--set", "logging.logging_steps=1"}),
                  path("log"));
  child.wait_until(
      [&] { return fs::exists(run_file("metrics.jsonl")) && fs::file_size(run_file("metrics.jsonl")) > 0; });
  expect_refused(train(), {"another process", "output_dir"});
  expect_refused(train({"--overwrite"}), {"another process"});
  // However it ends, the folder is free again; without a result there is nothing to protect.
  child.send(SIGKILL);
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  CommandResult after = train();
  EXPECT_EQ(after.exit_code, 0) << after.errors;
}

TEST_F(OutputFolder, WhatAKilledSaveLeftBehindGoes) {
  fs::create_directory(path("run"));
  write_file_atomically(run_file(".adapter_model.safetensors.12345-0.partial"), "half");
  ASSERT_EQ(train().exit_code, 0);
  EXPECT_FALSE(fs::exists(run_file(".adapter_model.safetensors.12345-0.partial")));
}

TEST_F(OutputFolder, FullFineTuningSavesTheTokenizerWhateverItsForm) {
  fs::copy(source_path("models/tiny-story"), path("model"));
  std::string gzip = "gzip " + shell_quoted(path("model/tokenizer.json"));
  ASSERT_EQ(std::system(gzip.c_str()), 0);
  write_file_atomically(path("model/spiece.model"), "bytes");  // not read beside tokenizer.json.gz, but kept
  ASSERT_EQ(train({"--set", "model.path=" + path("model"), "--set", "lora=null"}).exit_code, 0);
  for (const char* name : {"tokenizer.json.gz", "spiece.model", "tokenizer_config.json"}) {
    EXPECT_EQ(read_text_file(run_file(name)), read_text_file(path("model/") + name)) << name;
  }
  CommandResult text = run_snug({"generate", path("run"), "--prompt", "Once", "--max-new-tokens", "2"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
}

TEST_F(OutputFolder, TheSavedRecipeRunsFromAnywhere) {
  fs::copy(source_path("models/tiny-story/chat_template.jinja"), path("mine.jinja"));
  std::string recipe = read_text_file(source_path("recipes/ship_log.yml"));
  std::vector<std::string> first = {"train", source_path("recipes/ship_log.yml"), "--json"};
  for (const std::string& set :
       {"data.train_file=" + source_path("recipes/data/ship_log_train.jsonl"),
        std::string("data.chat_template=mine.jinja"), std::string("data.eval_file=null"),
        std::string("output_dir=run"), std::string("training.max_steps=1"),
        "model.path=" + source_path("models/tiny-story"), "data.cache_dir=" + path("cache")}) {
    first.insert(first.end(), {"--set", set});
  }
  // The template lies beside the recipe, the output in the current folder.
  write_file_atomically(path("recipe.yml"), recipe);
  first[1] = "recipe.yml";
  CommandResult before = run_snug(first, "cd " + shell_quoted(folder_.path().string()) + " && ");
  ASSERT_EQ(before.exit_code, 0) << before.errors;
  CommandResult after = run_snug({"train", run_file("recipe.yml"), "--json", "--overwrite"}, "cd / && ");
  ASSERT_EQ(after.exit_code, 0) << after.errors;
  EXPECT_EQ(json_output(after)["last_loss"], json_output(before)["last_loss"]);
}

}  // namespace
}  // namespace snug
