// A run on a device that works while the host goes on, without such a device: marks are kept for a short
// while, and steps, evaluations and checkpoints all set some.
#include <gtest/gtest.h>

#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "data/batches/limits.h"
#include "model/locate.h"
#include "plan/training.h"
#include "support/reference_case.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace snug {
namespace {

class AheadBackend : public CpuBackend {
 public:
  bool runs_ahead() const override { return true; }
  uint64_t mark() override { return next_++; }
  void wait_for(uint64_t mark) override {
    EXPECT_LT(mark, next_);
    EXPECT_GE(mark + kKept, next_) << "the mark is not kept any more";
  }

 private:
  static constexpr uint64_t kKept = 2;
  uint64_t next_ = 0;
};

class Observer : public RunListener {
 public:
  void on_step(const StepMetrics& metrics) override { steps.push_back(metrics.step); }
  void on_warning(const std::string& text) override { ADD_FAILURE() << text; }
  bool should_stop() { return stop_after > 0 && ++asked > stop_after; }

  int64_t stop_after = 0;  // questions
  int64_t asked = 0;
  std::vector<int64_t> steps;
};

class RunsAhead : public testing::Test {
 protected:
  TrainSummary run(const std::string& name, int64_t stop_after, std::optional<ResumePoint> resume = {}) {
    Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
    recipe.lora = LoraSection{.r = 4, .lora_dropout = 0.1};
    recipe.data.eval_file = {"eval.jsonl"};
    recipe.data.train_file = {{"train.jsonl"}};
    recipe.training.max_steps = 11;
    recipe.training.per_device_train_batch_size = 2;
    recipe.training.gradient_accumulation_steps = 2;
    recipe.training.per_device_eval_batch_size = 2;
    recipe.training.eval_steps = 4;
    recipe.training.save_steps = 3;
    recipe.logging.logging_steps = 5;
    recipe.output_dir = (folder_.path() / name).string();
    LocatedModel model = locate_model_files(recipe.model.path);
    std::vector<Example> examples;
    for (int i = 0; i < 9; ++i) {
      examples.push_back(make_example({3, i, 4, 1, 5 + i}, 0));
    }
    TrainInputs inputs{.recipe = recipe,
                       .model = model,
                       .data = {.train = make_dataset(examples), .eval = make_dataset(examples)}};
    bool resumes = resume.has_value();
    inputs.resume = std::move(resume);
    AheadBackend backend;
    Plan plan = plan_training(recipe, model.spec, backend);
    Observer observer;
    observer.stop_after = stop_after;
    RunFolder folder({.folder = recipe.output_dir, .model_folder = model.folder, .resume = resumes});
    RunEvents events([&] { return observer.should_stop(); });
    events.listen(observer);
    return train(inputs, plan, backend, events, folder);
  }
  std::string metrics(const std::string& name) const {
    std::ifstream file(folder_.path() / name / "metrics.jsonl");
    std::string all;
    for (std::string line; std::getline(file, line);) {
      Json row = parse_json(line, "metrics.jsonl");
      row.erase("tokens_per_second");
      row.erase("time");
      all += row.dump() + "\n";
    }
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(RunsAhead, MarksAreWaitedForWhileTheyAreKept) {
  TrainSummary summary = run("run", 0);
  EXPECT_EQ(summary.steps, 11);
  EXPECT_EQ(summary.evaluations.size(), 3U);  // after steps 4 and 8, and at the end
}

TEST_F(RunsAhead, GoesOnAfterAStopAtAnyMoment) {
  run("whole", 0);
  for (int64_t stop_after : {9, 14, 21, 30}) {
    std::string name = "stopped" + std::to_string(stop_after);
    TrainSummary stopped = run(name, stop_after);
    ASSERT_TRUE(stopped.interrupted) << stop_after;
    ASSERT_FALSE(stopped.checkpoint.empty()) << stop_after;
    run(name, 0, read_resume_point(stopped.checkpoint));
    EXPECT_EQ(metrics(name), metrics("whole")) << stop_after;
  }
}

}  // namespace
}  // namespace snug
