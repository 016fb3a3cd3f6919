// Runs in stages: what each begins with, what is left behind, and that a run which is killed in any stage
// ends like one that never stopped.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "io/safetensors.h"
#include "support/child_snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNames = {"log", "bill", "letter"};

std::vector<float> values_in(const fs::path& file, const std::string& name) {
  TensorSource source = open_tensors(file);
  const SourceTensor& tensor = source.find(name);
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  tensor.read(0, tensor.elements(), DType::f32, values.data());
  return values;
}

// scale B A of one module, in double: [outputs, inputs].
std::vector<double> product_of(const fs::path& adapter, const std::string& module) {
  fs::path file = adapter / "adapter_model.safetensors";
  Json config = read_json(adapter / "adapter_config.json");
  std::vector<float> a = values_in(file, "base_model.model." + module + ".lora_A.weight");
  std::vector<float> b = values_in(file, "base_model.model." + module + ".lora_B.weight");
  auto rank = config["r"].get<size_t>();
  size_t inputs = a.size() / rank;
  size_t outputs = b.size() / rank;
  double scale = config["lora_alpha"].get<double>() / static_cast<double>(rank);
  std::vector<double> product(outputs * inputs);
  for (size_t row = 0; row < outputs; ++row) {
    for (size_t k = 0; k < rank; ++k) {
      for (size_t column = 0; column < inputs; ++column) {
        product[row * inputs + column] +=
            scale * static_cast<double>(b[row * rank + k]) * static_cast<double>(a[k * inputs + column]);
      }
    }
  }
  return product;
}

class StagesRun : public testing::Test {
 protected:
  // One run that never stops serves all tests.
  static void SetUpTestSuite() { shared_ = new TemporaryFolder(); }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  void train_whole() {
    static double seconds = 0;
    fs::path whole = shared_->path() / "whole";
    if (!fs::exists(whole)) {
      auto start = std::chrono::steady_clock::now();
      CommandResult result = train("whole");
      ASSERT_EQ(result.exit_code, 0) << result.errors;
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      fs::copy(path("whole"), whole, fs::copy_options::recursive);
    } else {
      fs::copy(whole, path("whole"), fs::copy_options::recursive);
    }
    whole_seconds_ = seconds;
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }

  std::vector<std::string> arguments(const std::string& run, const std::vector<std::string>& settings,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train", source_path("recipes/three_stages.yml"), "--json"};
    std::vector<std::string> common = {"output_dir=" + path(run).string(),
                                       "data.cache_dir=" + path("cache").string(),
                                       "data.max_samples=16",
                                       "logging.logging_steps=1",
                                       "training.max_steps=4",
                                       "training.save_steps=2",
                                       "training.eval_steps=3"};
    for (const std::vector<std::string>& list : {common, settings}) {
      for (const std::string& setting : list) {
        all.insert(all.end(), {"--set", setting});
      }
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  CommandResult train(const std::string& run, const std::vector<std::string>& settings = {},
                      const std::vector<std::string>& more = {}) const {
    return run_snug(arguments(run, settings, more));
  }
  // Rows without what depends on the clock.
  std::vector<Json> metrics_of(const std::string& run, const std::string& stage) const {
    std::ifstream file(path(run) / stage / "metrics.jsonl");
    std::vector<Json> rows;
    for (std::string line; std::getline(file, line);) {
      rows.push_back(parse_json(line, "metrics.jsonl"));
      rows.back().erase("tokens_per_second");
      rows.back().erase("time");
    }
    return rows;
  }
  void expect_same_result(const std::string& a, const std::string& b) const {
    for (const std::string& stage : kNames) {
      EXPECT_EQ(metrics_of(a, stage), metrics_of(b, stage)) << stage;
      EXPECT_FALSE(metrics_of(a, stage).empty()) << stage;
      EXPECT_EQ(read_text_file(path(a) / stage / "adapter_model.safetensors"),
                read_text_file(path(b) / stage / "adapter_model.safetensors"))
          << stage;
    }
    EXPECT_EQ(read_text_file(path(a) / "adapter_model.safetensors"),
              read_text_file(path(b) / "adapter_model.safetensors"));
    EXPECT_EQ(read_json(path(a) / "stages.json"), read_json(path(b) / "stages.json"));
  }
  // Each part of the run is killed at a moment of its own, up to this share of the whole run's time.
  void kill_and_go_on(int kills, double largest_share, uint32_t seed) const {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> share(0.05, largest_share);
    for (int kill_number = 0; kill_number < kills; ++kill_number) {
      ChildSnug child(arguments("killed", {}, {"--resume"}), path("log.txt"));
      std::this_thread::sleep_for(std::chrono::duration<double>(whole_seconds_ * share(random)));
      child.kill_now();
    }
    CommandResult last = train("killed", {}, {"--resume"});
    ASSERT_EQ(last.exit_code, 0) << last.errors;
  }
  // The evaluations of a stage, each with the losses of its sets.
  Json evaluations_of(const std::string& run, const std::string& stage) const {
    return read_json(path(run) / stage / "summary.json")["evaluations"];
  }

  TemporaryFolder folder_;
  double whole_seconds_ = 0;

 private:
  static TemporaryFolder* shared_;
};

TemporaryFolder* StagesRun::shared_ = nullptr;

// In fp32: what the frozen adapters of a stage do is what the trained ones of the stage before did, and the
// one that is saved of all is their sum.
class Stacked : public StagesRun, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Formats, Stacked, testing::Values("none", "nf4_double"),
                         [](const auto& given) { return std::string(given.param); });

TEST_P(Stacked, AdaptersAreStacked) {
  CommandResult result = train("run", {"model.dtype=fp32", std::string("model.quantization=") + GetParam()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (size_t i = 1; i < kNames.size(); ++i) {
    Json end = evaluations_of("run", kNames[i - 1]).back();
    Json begin = evaluations_of("run", kNames[i]).front();
    EXPECT_EQ(begin["step"], 0);
    for (size_t k = 0; k < i; ++k) {
      std::string key = "eval_" + kNames[k] + "_loss";
      EXPECT_NEAR(begin[key].get<double>(), end[key].get<double>(), 1e-5) << kNames[i] << " " << key;
    }
    EXPECT_FALSE(end.contains("eval_" + kNames[i] + "_loss"));
  }
  for (const std::string module :
       {"model.layers.0.self_attn.k_proj", "model.layers.3.mlp.down_proj", "model.layers.2.mlp.gate_proj"}) {
    std::vector<double> sum = product_of(path("run/log"), module);
    double largest = 0;
    for (const char* own : {"run/bill/own", "run/letter/own"}) {
      std::vector<double> more = product_of(path(own), module);
      ASSERT_EQ(more.size(), sum.size());
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += more[i];
      }
    }
    std::vector<double> whole = product_of(path("run"), module);
    ASSERT_EQ(whole.size(), sum.size());
    for (size_t i = 0; i < sum.size(); ++i) {
      largest = std::max(largest, std::abs(whole[i] - sum[i]));
    }
    // The scales are 2, so that folding them into B rounds nothing; double adds up 28 products in another
    // order.
    EXPECT_LT(largest, 1e-15) << module;
  }
  Json config = read_json(path("run/adapter_config.json"));
  EXPECT_EQ(config["r"], 28);
  EXPECT_EQ(config["lora_alpha"], 28.0);
}

TEST_F(StagesRun, LeaveATableOfWhatWasForgotten) {
  train_whole();
  fs::rename(path("whole"), path("run"));
  EXPECT_EQ(read_text_file(path("run/adapter_model.safetensors")),
            read_text_file(path("run/letter/adapter_model.safetensors")));
  Json table = read_json(path("run/stages.json"));
  EXPECT_EQ(table["stages"], Json(kNames));
  ASSERT_EQ(table["sets"].size(), 3U);
  const Json& log = table["sets"][0];
  EXPECT_EQ(log["set"], "log");
  EXPECT_EQ(log["loss_before"], evaluations_of("run", "log").front()["eval_log_loss"]);
  for (const std::string& stage : kNames) {
    EXPECT_EQ(log["loss_after"][stage], evaluations_of("run", stage).back()["eval_log_loss"]) << stage;
  }
  EXPECT_NEAR(log["learned"].get<double>(),
              log["loss_before"].get<double>() - log["loss_after"]["log"].get<double>(), 1e-12);
  EXPECT_NEAR(log["forgotten"].get<double>(),
              log["loss_after"]["letter"].get<double>() - log["loss_after"]["log"].get<double>(), 1e-12);
  EXPECT_TRUE(table["sets"][2]["forgotten"].is_null());
  EXPECT_TRUE(table["sets"][2]["loss_after"]["log"].is_null());
  // A stage's own loss is that of its own set.
  Json last = evaluations_of("run", "letter").back();
  EXPECT_EQ(last["eval_loss"], last["eval_letter_loss"]);
  // All stages had one arena, the largest.
  std::set<int64_t> allocated;
  for (const std::string& stage : kNames) {
    Json summary = read_json(path("run") / stage / "summary.json");
    allocated.insert(summary["allocated_bytes"].get<int64_t>());
    EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]);
  }
  EXPECT_EQ(allocated.size(), 1U);
  // The recipe that is left behind is the same run.
  CommandResult again = run_snug({"train", (path("run") / "recipe.yml").string(), "--json", "--set",
                                  "output_dir=" + path("again").string()});
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  expect_same_result("run", "again");
}

TEST_F(StagesRun, KilledAnywhereTheyEndLikeARunThatNeverStopped) {
  train_whole();
  kill_and_go_on(4, 0.9, 5);
  expect_same_result("whole", "killed");
  // Once more: everything is finished already.
  CommandResult nothing = train("killed", {}, {"--resume"});
  ASSERT_EQ(nothing.exit_code, 0) << nothing.errors;
  expect_same_result("whole", "killed");
}

// Parts that are short beside the run, so that many moments of every stage are hit.
TEST_F(StagesRun, SlowKilledTwentyTimesTheyEndLikeARunThatNeverStopped) {
  train_whole();
  kill_and_go_on(20, 0.4, 11);
  expect_same_result("whole", "killed");
}

TEST_F(StagesRun, ASignalInTheSecondStageLeavesTheFirstFinished) {
  train_whole();
  ChildSnug child(arguments("stopped", {}), path("log.txt"));
  child.wait_until([&] { return metrics_of("stopped", "bill").size() > 2; });
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 4) << child.output();
  EXPECT_EQ(read_json(path("stopped/log/manifest.json"))["state"], "complete");
  EXPECT_EQ(read_json(path("stopped/bill/manifest.json"))["state"], "stopped");
  EXPECT_EQ(read_json(path("stopped/manifest.json"))["state"], "stopped");
  EXPECT_FALSE(fs::exists(path("stopped/adapter_model.safetensors")));
  auto written = fs::last_write_time(path("stopped/log/adapter_model.safetensors"));
  CommandResult changed = train("stopped", {"stages.log.training.learning_rate=1e-5"}, {"--resume"});
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_NE(changed.errors.find("training.learning_rate"), std::string::npos) << changed.errors;
  CommandResult longer = train("stopped", {"stages.log.training.max_steps=9"}, {"--resume"});
  EXPECT_EQ(longer.exit_code, 2);
  EXPECT_NE(longer.errors.find("stage log is finished"), std::string::npos) << longer.errors;
  ASSERT_EQ(train("stopped", {}, {"--resume"}).exit_code, 0);
  EXPECT_EQ(fs::last_write_time(path("stopped/log/adapter_model.safetensors")), written);
  expect_same_result("whole", "stopped");
}

// From a checkpoint of the second stage: it and what comes behind it are trained again, to the same end.
TEST_F(StagesRun, CanGoOnFromACheckpointOfAnyStage) {
  train_whole();
  fs::copy(path("whole"), path("run"), fs::copy_options::recursive);
  fs::path letter = path("run/letter/adapter_model.safetensors");
  fs::remove(letter);
  CommandResult result = train("run", {}, {"--resume=" + path("run/bill/checkpoint-2").string()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(fs::exists(letter));
  expect_same_result("whole", "run");
  CommandResult elsewhere = train("run", {}, {"--resume=" + path("whole/bill/checkpoint-2").string()});
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_NE(elsewhere.errors.find("is not in the folder of a stage"), std::string::npos) << elsewhere.errors;
}

// More steps for the last stage, under a limit that its checkpoint's split, and the finished stages, do not
// keep.
TEST_F(StagesRun, GoesOnWithAnotherSplitWhereItsOwnHasNoRoom) {
  train_whole();
  CommandResult result =
      train("whole", {"stages.letter.training.max_steps=5"}, {"--resume", "--memory", "14MB"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.errors.find("the plan of the checkpoint does not fit here"), std::string::npos)
      << result.errors;
  EXPECT_EQ(read_json(path("whole/letter/summary.json"))["steps"], 5);
  EXPECT_EQ(read_json(path("whole/bill/summary.json"))["steps"], 4);
  EXPECT_EQ(read_json(path("whole/adapter_config.json"))["r"], 28);
}

// At next to no rate an adapter that is gone on with stays what it was, in a stack too.
TEST_F(StagesRun, ContinueTrainsTheSameAdapter) {
  std::string recipe = read_text_file(source_path("recipes/three_stages.yml"));
  std::string from = "start: stack\n    lora: {r: 4, lora_alpha: 8}";
  size_t place = recipe.find(from);
  ASSERT_NE(place, std::string::npos);
  recipe.replace(place, from.size(), "start: continue");
  for (std::string_view folder : {"../models", " data/"}) {
    std::string to = folder == " data/" ? " " + source_path("recipes/data/") : source_path("models");
    for (size_t at = recipe.find(folder); at != std::string::npos; at = recipe.find(folder, at + to.size())) {
      recipe.replace(at, folder.size(), to);
    }
  }
  write_file_atomically(path("recipe.yml"), recipe);
  std::vector<std::string> all =
      arguments("run", {"stages.letter.training.learning_rate=1e-30", "training.weight_decay=0"});
  all[1] = path("recipe.yml").string();
  CommandResult result = run_snug(all);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (const char* which : {"adapter_model.safetensors", "own/adapter_model.safetensors"}) {
    EXPECT_EQ(read_text_file(path("run/bill") / which), read_text_file(path("run/letter") / which)) << which;
  }
}

TEST_F(StagesRun, NoMergeIntoCodes) {
  std::string stages =
      "[{name: a, data: {train_file: x.jsonl}}, {name: b, start: merge, data: {train_file: y.jsonl}}]";
  write_file_atomically(
      path("recipe.yml"),
      "model: {path: " + source_path("models/tiny-story") +
          ", quantization: nf4_double}\nlora: {r: 8}\noutput_dir: run\ndata: {max_length: 64}\nstages: " +
          stages + "\n");
  CommandResult result = run_snug({"plan", path("recipe.yml").string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("stage b: start is merge, but the weights are nf4_double"), std::string::npos)
      << result.errors;
}

// W + scale B A, rounded once to the file's format; and the next stage begins where the one before ended.
TEST_F(StagesRun, MergeMakesAdaptersPartOfTheWeights) {
  std::string recipe =
      "model: {path: " + source_path("models/tiny-story") +
      "}\nlora: {r: 8, lora_alpha: 20}\ndata: {max_length: 192}\nstages:\n" +
      "  - name: log\n    data: {train_file: " + source_path("recipes/data/ship_log_train.jsonl") +
      ", eval_file: " + source_path("recipes/data/ship_log_eval.jsonl") +
      "}\n  - name: bill\n    start: merge\n    lora: {r: 4}\n    data: {train_file: " +
      source_path("recipes/data/bill_train.jsonl") +
      ", eval_file: " + source_path("recipes/data/bill_eval.jsonl") + "}\n";
  write_file_atomically(path("recipe.yml"), recipe);
  std::vector<std::string> all = arguments("run", {"training.learning_rate=4e-3"});
  all[1] = path("recipe.yml").string();
  CommandResult result = run_snug(all);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::string module = "model.layers.1.mlp.up_proj";
  std::vector<float> before = values_in(source_path("models/tiny-story"), module + ".weight");
  std::vector<float> merged = values_in(path("run/bill/base"), module + ".weight");
  std::vector<double> update = product_of(path("run/log"), module);
  ASSERT_EQ(merged.size(), before.size());
  bool moved = false;
  for (size_t i = 0; i < merged.size(); ++i) {
    double exact = static_cast<double>(before[i]) + update[i];
    // Half a step of bf16, whose numbers have 8 bits, and a little for sums in fp32.
    EXPECT_NEAR(merged[i], exact, std::abs(exact) * 0x1p-8 + 1e-6);
    moved = moved || merged[i] != before[i];
  }
  EXPECT_TRUE(moved);
  EXPECT_EQ(values_in(path("run/bill/base"), "model.norm.weight"),
            values_in(source_path("models/tiny-story"), "model.norm.weight"));
  // Rounding W to 8 bits moves the loss a little.
  EXPECT_NEAR(evaluations_of("run", "bill").front()["eval_log_loss"].get<double>(),
              evaluations_of("run", "log").back()["eval_log_loss"].get<double>(), 0.02);
  EXPECT_EQ(read_json(path("run/adapter_config.json"))["base_model_name_or_path"],
            path("run/bill/base").string());
  CommandResult text = run_snug({"generate", path("run/bill/base").string(), "--adapter",
                                 path("run").string(), "--prompt", "Log: owl", "--max-new-tokens", "2"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
}

TEST_F(StagesRun, FoldersAreRefusedAndOverwrittenAsAWhole) {
  ASSERT_EQ(train("run", {"training.max_steps=2"}).exit_code, 0);
  CommandResult again = train("run", {"training.max_steps=2"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.errors.find("holds a run already"), std::string::npos) << again.errors;
  write_file_atomically(path("run/bill/notes.txt"), "mine");
  ASSERT_EQ(train("run", {"training.max_steps=2"}, {"--overwrite"}).exit_code, 0);
  // A run without stages takes away those of the run before, but for what is not snug's.
  CommandResult one = train("run",
                            {"stages=null", "training.max_steps=1",
                             "data.train_file=" + source_path("recipes/data/bill_train.jsonl")},
                            {"--overwrite"});
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_FALSE(fs::exists(path("run/log")));
  EXPECT_FALSE(fs::exists(path("run/letter")));
  EXPECT_TRUE(fs::exists(path("run/bill/notes.txt")));
  EXPECT_FALSE(fs::exists(path("run/bill/adapter_model.safetensors")));
}

// A recipe of the current folder, by its name alone, on stages that stand elsewhere.
TEST(StagesPlan, CanStandInTheRecipeThatIsExtended) {
  TemporaryFolder folder;
  write_file_atomically(folder.path() / "mine.yml",
                        "extends: " + source_path("recipes/three_stages.yml") + "\noutput_dir: mine\n");
  CommandResult result = run_snug({"plan", "mine.yml", "--device", "cpu"},
                                  "cd " + shell_quoted(folder.path().string()) + " && ");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST(StagesPlan, HasAColumnAStage) {
  Json plan = json_output(run_snug({"plan", source_path("recipes/cases/security.yml"), "--device", "cuda",
                                    "--memory", "47.5GiB", "--json"}));
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["peak_stage"], "it");
  ASSERT_EQ(plan["stages"].size(), 3U);
  EXPECT_EQ(plan["stages"][0]["trainable_parameters"],
            83'886'080);  // by hand: 32 layers, r (2 x in + out) ...
  EXPECT_EQ(plan["stages"][1]["trainable_parameters"], 41'943'040);
  EXPECT_EQ(plan["stages"][2]["trainable_parameters"], 20'971'520);
  EXPECT_EQ(plan["stages"][1]["roles"]["frozen adapters"], 2 * 83'886'080);
  EXPECT_EQ(plan["stages"][2]["roles"]["frozen adapters"], 2 * (83'886'080 + 41'943'040));
  EXPECT_EQ(plan["peak_bytes"], plan["stages"][0]["peak_bytes"]);

  CommandResult small =
      run_snug({"plan", source_path("recipes/cases/security.yml"), "--device", "cuda", "--memory", "6.5GiB"});
  EXPECT_EQ(small.exit_code, 3);
  EXPECT_NE(small.output.find("--set stages.it.training.optimizer_states="), std::string::npos)
      << small.output;
  for (int columns : {60, 80, 120, 200}) {
    CommandResult text = run_snug({"plan", source_path("recipes/three_stages.yml")},
                                  "COLUMNS=" + std::to_string(columns) + " ");
    EXPECT_EQ(text.exit_code, 0);
    std::istringstream lines(text.output);
    for (std::string line; std::getline(lines, line);) {
      std::string plain;
      for (char c : line) {
        plain += (static_cast<unsigned char>(c) & 0xC0U) == 0x80U ? "" : std::string(1, c);
      }
      EXPECT_LE(plain.size(), static_cast<size_t>(columns)) << line;
    }
  }
}

}  // namespace
}  // namespace snug
