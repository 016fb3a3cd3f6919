// A run that is killed and gone on with ends like one that never stopped: the same metrics and weights, bit
// for bit.
#include <gtest/gtest.h>

#include <algorithm>
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

constexpr const char* kSteps = "12";

std::vector<std::string> setting_arguments(const std::vector<std::string>& settings) {
  std::vector<std::string> arguments;
  for (const std::string& setting : settings) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  return arguments;
}

// Rows without what depends on the clock.
std::vector<Json> metrics_of(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) {
    rows.push_back(parse_json(line, "metrics.jsonl"));
    rows.back().erase("tokens_per_second");
    rows.back().erase("time");
  }
  return rows;
}

class Resume : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  std::vector<std::string> arguments(const std::string& run, const std::vector<std::string>& settings) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"), "--json"};
    std::vector<std::string> common = {"output_dir=" + path(run).string(),
                                       "data.cache_dir=" + path("cache").string(),
                                       "data.max_samples=96",
                                       "logging.logging_steps=1",
                                       std::string("training.max_steps=") + kSteps,
                                       "training.warmup_ratio=0",
                                       "training.eval_steps=4",
                                       "training.save_steps=3"};
    for (const std::vector<std::string>& list : {common, settings}) {
      std::vector<std::string> more = setting_arguments(list);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  CommandResult train(const std::string& run, const std::vector<std::string>& settings,
                      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = arguments(run, settings);
    all.insert(all.end(), more.begin(), more.end());
    return run_snug(all);
  }
  void expect_same_result(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metrics_of(path(a)), metrics_of(path(b)));
    EXPECT_FALSE(metrics_of(path(a)).empty());
    std::string name =
        fs::exists(path(a) / "model.safetensors") ? "model.safetensors" : "adapter_model.safetensors";
    EXPECT_EQ(read_text_file(path(a) / name), read_text_file(path(b) / name));
  }

  TemporaryFolder folder_;
};

struct Experiment {
  const char* name;
  int kills;
  std::vector<std::string> settings;
};

class Killed : public Resume, public testing::WithParamInterface<Experiment> {};

// Every part of the run is killed after a time of its own, until one reaches the end.
TEST_P(Killed, EndsLikeARunThatNeverStopped) {
  const std::vector<std::string>& settings = GetParam().settings;
  auto start = std::chrono::steady_clock::now();
  CommandResult whole = train("whole", settings);
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  std::chrono::duration<double> whole_seconds = std::chrono::steady_clock::now() - start;

  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0.1, 0.9);
  std::vector<std::string> all = arguments("killed", settings);
  all.emplace_back("--resume");
  for (int kill_number = 0; kill_number < GetParam().kills; ++kill_number) {
    ChildSnug child(all, path("log"));
    std::this_thread::sleep_for(whole_seconds * share(random));
    child.kill_now();
  }
  CommandResult last = run_snug(all);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  expect_same_result("whole", "killed");
  for (const fs::directory_entry& entry : fs::directory_iterator(path("killed"))) {
    EXPECT_FALSE(entry.path().filename().string().ends_with(".partial")) << entry.path();
  }
}

std::string experiment_name(const testing::TestParamInfo<Experiment>& given) {
  return given.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Experiments, Killed,
    testing::Values(
        Experiment{
            "lora_bf16_dropout_answers",
            2,
            {"lora.lora_dropout=0.1", "training.eval_max_new_tokens=8", "training.eval_generated_rows=4"}},
        Experiment{"qlora_packed_dropout",
                   2,
                   {"model.quantization=nf4_double", "lora.lora_dropout=0.1", "data.packing=true"}},
        Experiment{"full_fp32_packed",
                   2,
                   {"lora=null", "model.dtype=fp32", "data.packing=true", "training.learning_rate=1e-4"}}),
    experiment_name);

// Codes, scales and the random bits of rounding go on as well.
INSTANTIATE_TEST_SUITE_P(SmallStates, Killed,
                         testing::Values(Experiment{
                             "full_8bit_states",
                             2,
                             {"lora=null", "training.optimizer_states=8bit", "training.learning_rate=1e-4"}}),
                         experiment_name);

INSTANTIATE_TEST_SUITE_P(
    SlowExperiments, Killed,
    testing::Values(
        Experiment{"lora_bf16_dropout", 10, {"lora.lora_dropout=0.1"}},
        Experiment{"lora_fp32_packed", 10, {"model.dtype=fp32", "data.packing=true"}},
        Experiment{"full_fp32", 10, {"lora=null", "model.dtype=fp32", "training.learning_rate=1e-4"}},
        Experiment{"full_bf16_packed_dropout",
                   10,
                   {"lora=null", "data.packing=true", "model.dropout=0.1", "training.learning_rate=1e-4"}},
        Experiment{
            "full_adafactor", 10, {"lora=null", "training.optim=adafactor", "training.learning_rate=1e-4"}},
        Experiment{"full_bf16_states",
                   10,
                   {"lora=null", "training.optimizer_states=bf16", "training.learning_rate=1e-4"}}),
    experiment_name);

TEST_F(Resume, AfterASignalTheStepInProgressIsDroppedAndDoneAgain) {
  ASSERT_EQ(train("whole", {}).exit_code, 0);
  ChildSnug child(arguments("stopped", {}), path("log"));
  child.wait_until(
      [&] { return fs::exists(path("stopped/metrics.jsonl")) && metrics_of(path("stopped")).size() > 1; });
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(), 4) << child.output();
  Json summary = read_json(path("stopped/summary.json"));
  EXPECT_TRUE(fs::exists(fs::path(summary["checkpoint"].get<std::string>()) / "adapter_model.safetensors"));
  ASSERT_EQ(train("stopped", {}, {"--resume"}).exit_code, 0);
  expect_same_result("whole", "stopped");
}

TEST_F(Resume, IsAFreshStartWhereThereIsNoCheckpoint) {
  ASSERT_EQ(train("whole", {}).exit_code, 0);
  ASSERT_EQ(train("fresh", {}, {"--resume"}).exit_code, 0);
  expect_same_result("whole", "fresh");
}

// Damage of the newest checkpoint is seen, said, and the one before it is used.
TEST_F(Resume, PassesOverADamagedCheckpoint) {
  ASSERT_EQ(train("whole", {}).exit_code, 0);
  ASSERT_EQ(train("run", {}).exit_code, 0);
  ASSERT_TRUE(fs::exists(path("run/checkpoint-9")));
  fs::path state = path("run/checkpoint-12/state.safetensors");
  std::string bytes = read_text_file(state);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomically(state, bytes);
  CommandResult resumed = train("run", {}, {"--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("state.safetensors is damaged"), std::string::npos) << resumed.errors;
  expect_same_result("whole", "run");

  fs::resize_file(path("run/checkpoint-12/adapter_model.safetensors"), 1000);
  CommandResult named = train("run", {}, {"--resume=" + path("run/checkpoint-12").string()});
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_NE(named.errors.find("adapter_model.safetensors has 1000 bytes"), std::string::npos) << named.errors;
}

TEST_F(Resume, TakesMoreStepsButNoOtherExperiment) {
  ASSERT_EQ(train("run", {}).exit_code, 0);
  CommandResult longer = train("run", {"training.max_steps=15"}, {"--resume"});
  ASSERT_EQ(longer.exit_code, 0) << longer.errors;
  EXPECT_EQ(parse_json(longer.output, "summary")["steps"], 15);

  auto expect_refused = [&](const std::string& setting, const std::string& words) {
    CommandResult result = train("run", {setting}, {"--resume"});
    EXPECT_EQ(result.exit_code, 2) << setting;
    EXPECT_NE(result.errors.find(words), std::string::npos) << result.errors;
  };
  expect_refused("training.learning_rate=1e-5", "training.learning_rate is 1e-05");
  expect_refused("lora.r=8", "lora.r is 8");
  expect_refused("lora=null", "lora is not there");
  expect_refused("training.per_device_train_batch_size=4", "gradient_accumulation_steps is 4");
  expect_refused("data.train_file=" + source_path("recipes/data/ship_log_eval.jsonl"),
                 "data.train_file is not");

  // Another split of the same batch: the checkpoint's is used.
  CommandResult split = train("run",
                              {"training.max_steps=16", "training.per_device_train_batch_size=4",
                               "training.gradient_accumulation_steps=2"},
                              {"--resume"});
  EXPECT_EQ(split.exit_code, 0) << split.errors;
}

// On less memory than the checkpoint's split needs, the run is split otherwise, and says so; with enough it
// is not.
TEST_F(Resume, IsPlannedAgainWhereTheCheckpointsSplitDoesNotFit) {
  std::vector<std::string> settings = {"training.save_total_limit=10",
                                       "training.per_device_eval_batch_size=1"};
  CommandResult whole = train("run", settings);
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  std::vector<Json> before = metrics_of(path("run"));
  int64_t needed = read_json(path("run/plan.json"))["peak_bytes"];
  auto go_on = [&](int64_t limit_bytes) {
    return train(
        "run", settings,
        {"--resume=" + path("run/checkpoint-6").string(), "--memory", std::to_string(limit_bytes) + "B"});
  };
  CommandResult fits = go_on(needed);
  ASSERT_EQ(fits.exit_code, 0) << fits.errors;
  EXPECT_EQ(fits.errors.find("does not fit"), std::string::npos) << fits.errors;
  EXPECT_EQ(metrics_of(path("run")), before);

  // Recomputation alone: no bit differs.
  CommandResult recomputed = go_on(needed - 1);
  ASSERT_EQ(recomputed.exit_code, 0) << recomputed.errors;
  EXPECT_NE(recomputed.errors.find("recomputation in "), std::string::npos) << recomputed.errors;
  EXPECT_NE(recomputed.errors.find("its bits are those of"), std::string::npos) << recomputed.errors;
  EXPECT_EQ(metrics_of(path("run")), before);
  EXPECT_EQ(parse_json(recomputed.output, "summary")["warnings"].size(), 1U);

  CommandResult split = go_on(needed * 4 / 10);
  ASSERT_EQ(split.exit_code, 0) << split.errors;
  EXPECT_NE(split.errors.find(" tokens at once"), std::string::npos) << split.errors;
  EXPECT_NE(split.errors.find("its bits will differ"), std::string::npos) << split.errors;
  EXPECT_LE(read_json(path("run/plan.json"))["peak_bytes"].get<int64_t>(), needed * 4 / 10);
  std::vector<Json> after = metrics_of(path("run"));
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i]["step"], before[i]["step"]);
    if (before[i]["step"] == 7 && before[i].contains("loss")) {  // from the same weights: equal to rounding
      EXPECT_NEAR(after[i]["loss"].get<double>(), before[i]["loss"].get<double>(), 1e-3);
    }
  }

  CommandResult never = go_on(needed / 100);
  EXPECT_EQ(never.exit_code, 3);
}

TEST_F(Resume, KeepsAsManyCheckpointsAsAsked) {
  ASSERT_EQ(train("run", {"training.save_steps=2", "training.save_total_limit=3"}).exit_code, 0);
  std::set<std::string> kept;
  for (const fs::directory_entry& entry : fs::directory_iterator(path("run"))) {
    if (entry.is_directory()) {
      kept.insert(entry.path().filename().string());
    }
  }
  EXPECT_EQ(kept, (std::set<std::string>{"checkpoint-8", "checkpoint-10", "checkpoint-12"}));
  ASSERT_EQ(train("no", {"training.save_strategy=no"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(path("no/checkpoint-12")));
  ASSERT_EQ(train("epoch", {"training.save_strategy=epoch", "data.max_samples=32"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(path("epoch/checkpoint-8")));  // 4 steps an epoch
  ASSERT_EQ(train("minutes", {"training.save_strategy=minutes", "training.save_minutes=1e-9",
                              "training.save_total_limit=20"})
                .exit_code,
            0);
  EXPECT_TRUE(fs::exists(path("minutes/checkpoint-5")));
}

// Sets with names are evaluated each, and together they are what one set of all rows is.
TEST_F(Resume, EvaluatesNamedSets) {
  std::string rows = read_text_file(source_path("recipes/data/ship_log_eval.jsonl"));
  size_t middle = rows.find('\n', rows.size() / 3) + 1;
  write_file_atomically(path("a.jsonl"), rows.substr(0, middle));
  write_file_atomically(path("b.jsonl"), rows.substr(middle));
  CommandResult together = train("together", {"training.max_steps=2"});
  CommandResult apart =
      train("apart", {"training.max_steps=2", "data.eval_file={first: " + path("a.jsonl").string() +
                                                  ", second: " + path("b.jsonl").string() + "}"});
  ASSERT_EQ(together.exit_code, 0) << together.errors;
  ASSERT_EQ(apart.exit_code, 0) << apart.errors;
  Json all = parse_json(together.output, "summary")["evaluations"].back();
  Json both = parse_json(apart.output, "summary")["evaluations"].back();
  EXPECT_EQ(both["eval_targets"], all["eval_targets"]);
  EXPECT_EQ(both["eval_first_targets"].get<int64_t>() + both["eval_second_targets"].get<int64_t>(),
            all["eval_targets"].get<int64_t>());
  // Other batches, so other sums: equal to rounding in bf16.
  EXPECT_NEAR(both["eval_loss"].get<double>(), all["eval_loss"].get<double>(), 1e-3);
  EXPECT_NE(both["eval_first_loss"], both["eval_second_loss"]);
  EXPECT_NEAR(all["eval_perplexity"].get<double>(), std::exp(all["eval_loss"].get<double>()), 1e-9);
}

// At a rate that makes it worse, two evaluations that are no better end the run.
TEST_F(Resume, StopsEarlyWhereEvaluationsGetNoBetter) {
  CommandResult result = train("run", {"training.learning_rate=0.02", "training.lr_scheduler_type=constant",
                                       "training.max_grad_norm=0", "training.eval_steps=3",
                                       "training.early_stopping_patience=2", "training.max_steps=100"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  Json summary = parse_json(result.output, "summary");
  EXPECT_EQ(summary["ended_early"], true);
  const Json& evaluations = summary["evaluations"];
  size_t count = evaluations.size();
  ASSERT_GE(count, 3U);
  EXPECT_LT(summary["steps"], 100);
  for (size_t i : {count - 1, count - 2}) {
    EXPECT_GE(evaluations[i]["eval_loss"], evaluations[count - 3]["eval_loss"]);
  }
}

// Adapters that are trained on at next to no rate stay what they were.
TEST_F(Resume, TrainingCanStartFromAnAdapter) {
  ASSERT_EQ(train("first", {"training.max_steps=4"}).exit_code, 0);
  std::vector<std::string> settings = {"lora.start=" + path("first").string(), "training.max_steps=2",
                                       "training.learning_rate=1e-30", "training.weight_decay=0"};
  CommandResult result = train("second", settings);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(read_text_file(path("first/adapter_model.safetensors")),
            read_text_file(path("second/adapter_model.safetensors")));
  settings.emplace_back("lora.lora_alpha=8");
  CommandResult other = train("third", settings);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find("lora.lora_alpha is 8.0, but the adapter"), std::string::npos) << other.errors;
}

// With a rate at which the model gets worse, the best evaluation is not the last.
TEST_F(Resume, TheBestEvaluationCanBeTheResult) {
  std::vector<std::string> settings = {"training.save_strategy=best", "training.load_best_model_at_end=true",
                                       "training.learning_rate=0.02", "training.lr_scheduler_type=constant",
                                       "training.max_grad_norm=0",    "training.save_total_limit=1",
                                       "training.eval_steps=3"};
  CommandResult result = train("run", settings);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  Json evaluations = parse_json(result.output, "summary")["evaluations"];
  ASSERT_EQ(evaluations.size(), 4U);
  auto best = std::min_element(evaluations.begin(), evaluations.end(),
                               [](const Json& a, const Json& b) { return a["eval_loss"] < b["eval_loss"]; });
  ASSERT_LT((*best)["step"], 12) << "the rate does not make it worse";
  fs::path checkpoint = path("run") / ("checkpoint-" + (*best)["step"].dump());
  EXPECT_EQ(read_text_file(path("run/adapter_model.safetensors")),
            read_text_file(checkpoint / "adapter_model.safetensors"));
}

}  // namespace
}  // namespace snug
