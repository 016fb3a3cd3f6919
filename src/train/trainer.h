// The training loop: steps of accumulated micro-batches, evaluation, metrics, and the result's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/optimizer.h"
#include "data/batches/sequence.h"
#include "data/run_data.h"
#include "exec/executor.h"
#include "model/locate.h"
#include "program/step_clock.h"
#include "recipe/recipe.h"
#include "text/tokenizer/tokenizer.h"
#include "train/resume_point.h"
#include "train/run_events.h"

namespace snug {

class RunFolder;

// What a run works on, read and checked before the memory is taken.
struct TrainInputs {
  Recipe recipe;
  LocatedModel model;
  RunData data;
  std::optional<ResumePoint> resume = std::nullopt;  // a run that is gone on with
  std::filesystem::path start_adapter = {};          // whose adapters are trained on; "": fresh ones
  std::filesystem::path frozen_adapter = {};         // what earlier stages stacked (Recipe::stage)
  bool evaluates_first = false;                      // before the first step too
  double stall_seconds = 60;                         // for which a disk may keep the run waiting
};

// What the data must know of a model.
DataModel data_model(const LocatedModel& model);
// Reads the data; throws bad_input for anything that would fail later.
TrainInputs read_train_inputs(const Recipe& recipe, const LocatedModel& model, const DataObserver& observer);

// Trains by `plan`, which must be of the same recipe and must fit. Writes the adapter (or the model),
// checkpoints, recipe.yml, plan.json, metrics.jsonl and summary.json to `folder`. Throws bad_input if nothing
// can be learned; what was learned before is saved then.
TrainSummary train(const TrainInputs& inputs, const Plan& plan, Backend& backend, RunEvents events,
                   RunFolder& folder);

// The loop's moves, also for tests: optimizer steps, and the mean loss over all batches. A backend that runs
// ahead does steps without the host, which reads their results when it wants to know them.
struct StepResult {
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;

  bool was_skipped() const;  // gradients that are not finite change nothing
};
class StepRunner {
 public:
  StepRunner(Executor& executor, const TrainingSection& training);
  // Goes on where an earlier part of the run ended; the device's state is that of its end.
  void go_on(int64_t steps, int64_t updates);

  // `should_stop` is asked before each micro-batch; false if it said yes, and the step was dropped.
  bool enqueue_step(const std::vector<Batch>& micro_batches, int64_t step, int64_t total_steps,
                    const std::function<bool()>& should_stop = {});
  // Of all steps since the last call, in order; waits for them.
  std::vector<StepResult> take_results();
  // No step may be enqueued before the results are taken.
  bool history_full() const { return pending_targets_.size() == kHistorySteps; }

  // The same in one: a step and its result.
  StepResult run_step(const std::vector<Batch>& micro_batches, int64_t step, int64_t total_steps);
  // Gradients of all micro-batches, times loss_scale(), without the update. Returns the mean loss.
  double accumulate_gradients(const std::vector<Batch>& micro_batches, int64_t step);
  // The mean over all of it, in the file's order, with batches no larger than `most`.
  // `goes_on` is asked after each batch, with how many are done and how many there are.
  using GoesOn = std::function<bool(int64_t done, int64_t total)>;
  EvaluationMetrics evaluate(const Dataset& dataset, const BatchLimits& most, const GoesOn& goes_on = {});
  float loss_scale();  // waits
  bool scales_loss() const { return scales_loss_; }

 private:
  double loss_sum_and_reset();
  bool enqueue_gradients(const std::vector<Batch>& micro_batches, int64_t step,
                         const std::function<bool()>& should_stop = {});
  void run_micro_batch(std::string_view phase, const Batch& batch, float scale,
                       Executor::Sums sums = Executor::Sums::go_on);

  Executor& executor_;
  const TrainingSection& training_;
  bool scales_loss_;
  int64_t steps_ = 0;
  int64_t updates_ = 0;                   // among the steps whose results were taken
  std::vector<int64_t> pending_targets_;  // of each step whose result was not taken
};

}  // namespace snug
