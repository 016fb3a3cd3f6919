// Checkpoints that are written while training goes on: the same files as those that training waits for,
// one after the other, whatever ends the run meanwhile.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "io/safetensors.h"
#include "model/locate.h"
#include "plan/training.h"
#include "recipe/choices.h"
#include "support/reference_case.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/snapshot.h"
#include "train/trainer.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Its loss is no number any more from the moment it is told so, or another one.
class SickBackend : public CpuBackend {
 public:
  void run(const KernelCall& call) override {
    CpuBackend::run(call);
    for (const Tensor& output : call.outputs) {
      if (is_sick && output.data != nullptr && output.dtype == DType::f64) {
        *output.as<double>() = sick_loss;
      }
    }
  }

  bool is_sick = false;
  double sick_loss = std::numeric_limits<double>::quiet_NaN();
};

struct Hooks {
  std::function<void(int64_t step)> on_step = [](int64_t) {};
  std::function<void(const std::string& text)> on_stage = [](const std::string&) {};
  std::function<void(const std::string& text)> on_warning = [](const std::string& text) {
    ADD_FAILURE() << text;
  };
  std::function<bool()> should_stop = [] { return false; };
};

class Observer : public RunListener {
 public:
  explicit Observer(const Hooks& hooks) : hooks_(hooks) {}
  void on_stage(const std::string& text) override { hooks_.on_stage(text); }
  void on_step(const StepMetrics& metrics) override { hooks_.on_step(metrics.step); }
  void on_warning(const std::string& text) override { hooks_.on_warning(text); }

 private:
  const Hooks& hooks_;
};

class BesideTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::path source = reference_folder("gqa_untied");
    fs::create_directories(model_);
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(source / name, model_ / name);
    }
    write_file_atomically(copied_, "{}\n");
  }

  // Full fine-tuning of 11 steps with a checkpoint after every third.
  Recipe recipe(const std::string& name) const {
    Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
    recipe.model.path = model_.string();
    recipe.data.train_file = {{"train.jsonl"}};
    recipe.training.max_steps = 11;
    recipe.training.per_device_train_batch_size = 2;
    recipe.training.save_steps = 3;
    recipe.training.save_total_limit = 10;
    recipe.output_dir = run_folder(name).string();
    return recipe;
  }
  fs::path run_folder(const std::string& name) const { return folder_.path() / name; }

  TrainSummary run(const Recipe& recipe, const Hooks& hooks) {
    LocatedModel model = locate_model_files(recipe.model.path);
    std::vector<Example> examples;
    for (int i = 0; i < 9; ++i) {
      examples.push_back(make_example({3, i, 4, 1, 5 + i}, 0));
    }
    TrainInputs inputs{
        .recipe = recipe, .model = model, .data = {.train = make_dataset(examples), .eval = {}}};
    inputs.stall_seconds = stall_seconds_;
    Plan plan = plan_training(recipe, model.spec, backend_.emplace());
    had_snapshot_ = has_snapshot(plan);
    checkpoint_bytes_ = plan.saving->checkpoint_bytes;
    Observer observer(hooks);
    RunFolder folder({.folder = recipe.output_dir, .model_folder = model.folder});
    RunEvents events(hooks.should_stop);
    events.listen(observer);
    return train(inputs, plan, *backend_, events, folder);
  }

  // With a limit that has no byte for the copy.
  Recipe without_room(Recipe recipe) {
    LocatedModel model = locate_model_files(recipe.model.path);
    recipe.memory.limit_bytes = plan_training(recipe, model.spec, CpuBackend()).peak_bytes();
    return recipe;
  }

  static int64_t tensor_bytes(const fs::path& checkpoint) {
    int64_t bytes = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) {
      if (entry.path().extension() == ".safetensors") {
        bytes += open_safetensors(entry.path()).stored_bytes();
      }
    }
    return bytes;
  }
  static void wait_for(const fs::path& file) {
    while (!fs::exists(file)) {
      std::this_thread::yield();
    }
  }

  TemporaryFolder folder_;
  fs::path model_ = folder_.path() / "model";
  fs::path copied_ = model_ / "generation_config.json";  // that every checkpoint has a copy of
  std::optional<SickBackend> backend_;
  double stall_seconds_ = 60;
  bool had_snapshot_ = false;
  int64_t checkpoint_bytes_ = 0;
};

// Whoever reads a file of the model's folder waits, until it is let go.
class HeldFile {
 public:
  explicit HeldFile(const fs::path& path) : path_(path) {
    fs::remove(path_);
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    helper_ = std::thread([this] {
      using namespace std::chrono_literals;
      // The end of waiting is for a program that waits itself: its test fails then, and does not hang.
      for (int i = 0; i < 3000 && !is_let_go_; ++i) {
        std::this_thread::sleep_for(10ms);
      }
      std::ofstream(path_) << "{}\n";  // opens when somebody reads
      fs::remove(path_);
      write_file_atomically(path_, "{}\n");
    });
  }
  ~HeldFile() { wait(); }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

  void let_go() { is_let_go_ = true; }
  void wait() {
    let_go();
    if (helper_.joinable()) {
      helper_.join();
    }
  }

 private:
  fs::path path_;
  std::atomic<bool> is_let_go_{false};
  std::thread helper_;
};

// Steps are done while the checkpoint cannot be finished, and it is that of its own step.
TEST_F(BesideTraining, TrainingGoesOn) {
  std::optional<HeldFile> held;
  int64_t steps_meanwhile = 0;
  fs::path third = run_folder("run") / "checkpoint-3";
  Hooks hooks;
  hooks.on_step = [&](int64_t step) {
    if (step == 2) {
      held.emplace(copied_);
    }
    if (step == 4 || step == 5) {
      steps_meanwhile += fs::exists(third) ? 0 : 1;
    }
    if (step == 5) {
      held->wait();
    }
  };
  run(recipe("run"), hooks);
  EXPECT_TRUE(had_snapshot_);
  EXPECT_EQ(steps_meanwhile, 2);
  run(without_room(recipe("waits")), Hooks());
  EXPECT_FALSE(had_snapshot_);
  for (const char* checkpoint : {"checkpoint-3", "checkpoint-6", "checkpoint-9", "checkpoint-11"}) {
    EXPECT_EQ(checkpoint_problem(run_folder("run") / checkpoint), "");
    for (const char* file : {"model.safetensors", "state.safetensors", "config.json"}) {
      EXPECT_EQ(read_text_file(run_folder("run") / checkpoint / file),
                read_text_file(run_folder("waits") / checkpoint / file))
          << checkpoint << " " << file;
    }
  }
  EXPECT_EQ(tensor_bytes(third), checkpoint_bytes_);
  EXPECT_NE(read_text_file(third / "model.safetensors"),
            read_text_file(run_folder("run/checkpoint-6") / "model.safetensors"));
}

TEST_F(BesideTraining, AdaptersAreTheSameToo) {
  for (OptimizerStates states : {OptimizerStates::fp32, OptimizerStates::bf16, OptimizerStates::eight_bits}) {
    Recipe both = recipe(std::string("run_") + std::string(name_of(states)));
    both.model.dtype = DType::bf16;
    both.training.optimizer_states = states;
    both.lora = LoraSection{.r = 4};
    run(both, Hooks());
    EXPECT_TRUE(had_snapshot_);
    Recipe waits = without_room(both);
    waits.output_dir += "_waits";
    run(waits, Hooks());
    EXPECT_FALSE(had_snapshot_);
    for (const char* file : {"adapter_model.safetensors", "state.safetensors"}) {
      EXPECT_EQ(read_text_file(fs::path(both.output_dir) / "checkpoint-6" / file),
                read_text_file(fs::path(waits.output_dir) / "checkpoint-6" / file))
          << file;
    }
    EXPECT_EQ(tensor_bytes(fs::path(both.output_dir) / "checkpoint-6"), checkpoint_bytes_);
  }
}

TEST_F(BesideTraining, OneAfterTheOther) {
  Recipe every = recipe("run");
  every.training.save_steps = 1;
  every.training.save_total_limit = 2;
  int64_t begun = 0;
  Hooks hooks;
  hooks.on_stage = [&](const std::string& text) {
    if (!text.starts_with("saving checkpoint-")) {
      return;
    }
    if (begun > 0) {
      EXPECT_EQ(checkpoint_problem(run_folder("run") / checkpoint_name(begun)), "");
    }
    EXPECT_LE(find_checkpoints(run_folder("run")).size(), 2U);
    begun = std::stoll(text.substr(text.find('-') + 1));
  };
  TrainSummary summary = run(every, hooks);
  EXPECT_EQ(begun, 11);
  EXPECT_EQ(fs::path(summary.checkpoint).filename(), "checkpoint-11");
}

TEST_F(BesideTraining, AStopWaitsForIt) {
  std::optional<HeldFile> held;
  bool stop = false;
  Hooks hooks;
  hooks.on_step = [&](int64_t step) {
    if (step == 2) {
      held.emplace(copied_);
    }
    if (step == 4) {
      stop = true;
      held->let_go();
    }
  };
  hooks.should_stop = [&] { return stop; };
  TrainSummary summary = run(recipe("run"), hooks);
  EXPECT_TRUE(summary.interrupted);
  EXPECT_EQ(fs::path(summary.checkpoint).filename(), "checkpoint-4");
  for (const char* checkpoint : {"checkpoint-3", "checkpoint-4"}) {
    EXPECT_EQ(checkpoint_problem(run_folder("run") / checkpoint), "") << checkpoint;
  }
}

// What goes wrong is said while training goes on, and the one before stays.
TEST_F(BesideTraining, AProblemIsAWarning) {
  std::vector<std::string> warnings;
  Hooks hooks;
  hooks.on_step = [&](int64_t step) {
    if (step == 5) {
      wait_for(run_folder("run/checkpoint-3"));
      fs::remove(copied_);
      fs::create_directory(copied_);  // cannot be copied
    }
  };
  hooks.on_warning = [&](const std::string& text) {
    warnings.push_back(text);
    fs::remove(copied_);
    write_file_atomically(copied_, "{}\n");
  };
  Recipe recipe = this->recipe("run");
  recipe.training.save_total_limit = 1;
  TrainSummary summary = run(recipe, hooks);
  EXPECT_EQ(summary.steps, 11);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("the checkpoint of step 6 was not saved: ")) << warnings[0];
  EXPECT_TRUE(warnings[0].ends_with("; checkpoint-3 is as it was")) << warnings[0];
  EXPECT_EQ(summary.warnings, warnings);
  EXPECT_EQ(checkpoint_problem(run_folder("run/checkpoint-11")), "");
  EXPECT_EQ(find_checkpoints(run_folder("run")).size(), 1U);
}

// The disk takes nothing of it for longer than it may.
TEST_F(BesideTraining, ADiskThatStallsIsTold) {
  using namespace std::chrono_literals;
  stall_seconds_ = 0.01;
  std::optional<HeldFile> held;
  std::vector<std::string> stalls;
  Hooks hooks;
  hooks.on_step = [&](int64_t step) {
    if (step == 2) {
      held.emplace(copied_);
    }
    if (step == 4) {
      std::this_thread::sleep_for(20ms);
    }
    if (step == 5) {
      held->wait();
    }
  };
  hooks.on_warning = [&](const std::string& text) {
    if (text.find("nothing of a checkpoint was written") != std::string::npos) {
      stalls.push_back(text);
    }
  };
  TrainSummary summary = run(recipe("run"), hooks);
  EXPECT_EQ(summary.steps, 11);
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_NE(stalls[0].find("output_dir"), std::string::npos) << stalls[0];
}

// Nothing can be gone on from without the metrics so far, but the result is there at the end.
TEST_F(BesideTraining, AFolderThatIsTakenAwayCostsNoResult) {
  std::vector<std::string> warnings;
  Hooks hooks;
  hooks.on_step = [&](int64_t step) {
    if (step == 4) {
      wait_for(run_folder("run/checkpoint-3"));
      fs::remove_all(run_folder("run"));
    }
  };
  hooks.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  TrainSummary summary = run(recipe("run"), hooks);
  EXPECT_EQ(summary.steps, 11);
  EXPECT_TRUE(fs::exists(run_folder("run/model.safetensors")));
  ASSERT_FALSE(warnings.empty());
  EXPECT_TRUE(warnings[0].starts_with("the checkpoint of step 6 was not saved: ")) << warnings[0];
}

// No checkpoint is made of what has exploded, so that the one that is named is from before.
TEST_F(BesideTraining, AnExplosionThatStaysEndsTheRunAndKeepsWhatWasGood) {
  Hooks hooks;
  hooks.on_step = [&](int64_t step) {
    if (step == 4) {
      backend_->is_sick = true;
      backend_->sick_loss = 1e6;
    }
  };
  std::vector<std::string> warnings;
  hooks.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  Recipe recipe = this->recipe("run");
  recipe.training.max_steps = 100;
  try {
    run(recipe, hooks);
    ADD_FAILURE() << "it goes on";
  } catch (const Error& error) {
    fs::path third = run_folder("run") / "checkpoint-3";
    EXPECT_NE(std::string(error.what()).find("has stayed there for 50 steps, up to step 54"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("The last good checkpoint is " + third.string()),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(find_checkpoints(run_folder("run")).size(), 1U);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("the loss of step 5 is"), std::string::npos) << warnings[0];
}

// A run that diverges names a checkpoint that is whole, though it was being written then.
TEST_F(BesideTraining, DivergenceWaitsForIt) {
  std::optional<HeldFile> held;
  Hooks hooks;
  hooks.on_step = [&](int64_t step) {
    if (step == 2) {
      held.emplace(copied_);
    }
    if (step == 4) {
      backend_->is_sick = true;
    }
    if (step == 5) {
      held->let_go();
    }
  };
  hooks.on_warning = [](const std::string&) {};
  try {
    run(recipe("run"), hooks);
    ADD_FAILURE() << "it goes on";
  } catch (const Error& error) {
    fs::path third = run_folder("run") / "checkpoint-3";
    EXPECT_NE(std::string(error.what()).find("The last good checkpoint is " + third.string()),
              std::string::npos)
        << error.what();
    EXPECT_EQ(checkpoint_problem(third), "");
  }
}

}  // namespace
}  // namespace snug
