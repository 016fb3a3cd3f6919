// The loop around the steps.
#include "train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "compile/phases.h"
#include "data/batches/limits.h"
#include "io/atomic_file.h"
#include "plan/fit.h"
#include "recipe/write.h"
#include "train/metrics_file.h"
#include "train/output.h"
#include "train/schedule.h"
#include "train/weights.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Trainer {
 public:
  Trainer(const TrainInputs& inputs, const Plan& plan, Backend& backend, TrainObserver& observer)
      : inputs_(inputs),
        recipe_(inputs.recipe),
        folder_(inputs.recipe.output_dir),
        observer_(observer),
        executor_(plan, backend),
        runner_(executor_, recipe_.training),
        batches_(inputs.data.train, training_batches(recipe_, inputs.data.train)) {}

  TrainSummary run() {
    prepare_output();
    load();
    summary_.total_steps = batches_.total_steps();
    MetricsFile metrics(folder_ / "metrics.jsonl");
    train_steps(metrics);
    if (inputs_.data.eval && !evaluated_at_end()) {
      evaluate(metrics);
    }
    save();
    return summary_;
  }

 private:
  void prepare_output() {
    require_writable_folder(folder_);
    write_file_atomically(folder_ / "recipe.yml", recipe_to_yaml(recipe_));
  }

  void load() {
    auto seed = static_cast<uint64_t>(recipe_.training.seed);
    load_constants(executor_);
    if (recipe_.model.from_scratch) {
      observer_.on_stage("making fresh weights");
      initialize_weights(executor_, inputs_.model.spec, seed);
    } else {
      SafetensorsSet files = SafetensorsSet::open(inputs_.model.folder);
      require_tensors(executor_.plan(), Role::base_weights, files, inputs_.model.folder);
      observer_.on_stage(fmt::format("loading weights, {}", format_bytes(files.total_bytes())));
      load_tensors(executor_, Role::base_weights, files);
    }
    if (recipe_.lora) {
      initialize_adapters(executor_, seed);
    }
  }

  void train_steps(MetricsFile& metrics) {
    Clock::time_point start = Clock::now();
    waiting_since_ = start;
    while (!summary_.interrupted) {
      std::vector<Batch> step = batches_.next_step();
      if (step.empty()) {
        break;
      }
      enqueue(step);
      summary_.interrupted = observer_.should_stop();
      bool evaluation_due = inputs_.data.eval && is_multiple(summary_.steps, recipe_.training.eval_steps);
      if (results_due() || evaluation_due) {
        record_results(metrics);
        summary_.seconds = seconds_since(start);
      }
      if (evaluation_due) {
        evaluate(metrics);
        waiting_since_ = Clock::now();
      }
    }
    if (!waiting_.empty()) {
      record_results(metrics);
      summary_.seconds = seconds_since(start);
    }
  }

  static bool is_multiple(int64_t step, int64_t of) { return of > 0 && step % of == 0; }

  // Reading results makes the host wait for a card, so it is done for the steps that are logged.
  bool results_due() const {
    return !executor_.runs_ahead() || runner_.history_full() || is_logged(summary_.steps);
  }
  bool is_logged(int64_t step) const {
    return step == 1 || step == summary_.total_steps || (summary_.interrupted && step == summary_.steps) ||
           is_multiple(step, recipe_.logging.logging_steps);
  }

  void enqueue(const std::vector<Batch>& step) {
    int64_t index = summary_.steps;
    runner_.enqueue_step(step, index, summary_.total_steps);
    StepMetrics row;
    row.step = ++summary_.steps;
    row.total_steps = summary_.total_steps;
    row.epoch = batches_.epoch();
    row.learning_rate = learning_rate(recipe_.training, index, summary_.total_steps);
    for (const Batch& batch : step) {
      row.tokens += batch.tokens() + batch.source_tokens();
    }
    waiting_.push_back(row);
  }

  // Waits for the steps enqueued so far. Each is said to have taken its share of the time.
  void record_results(MetricsFile& metrics) {
    std::vector<StepResult> results = runner_.take_results();
    double seconds = seconds_since(waiting_since_) / static_cast<double>(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      StepMetrics& row = waiting_[i];
      row.loss = results[i].loss;
      row.gradient_norm = results[i].gradient_norm;
      row.seconds = seconds;
      if (!std::isfinite(row.loss)) {
        throw bad_input(
            fmt::format("the loss of step {} is {}: training has diverged. Lower training.learning_rate "
                        "(now {}), or lengthen warm-up; nothing was saved",
                        row.step, row.loss, recipe_.training.learning_rate));
      }
      record(row, metrics);
    }
    waiting_.clear();
    waiting_since_ = Clock::now();
  }

  void record(const StepMetrics& row, MetricsFile& metrics) {
    summary_.tokens += row.tokens;
    summary_.last_loss = row.loss;
    if (row.step == 1) {
      summary_.first_loss = row.loss;
    }
    if (is_logged(row.step)) {
      metrics.append({{"step", row.step},
                      {"epoch", row.epoch},
                      {"loss", row.loss},
                      {"grad_norm", row.gradient_norm},
                      {"learning_rate", row.learning_rate},
                      {"tokens", summary_.tokens},
                      {"tokens_per_second", static_cast<double>(row.tokens) / std::max(row.seconds, 1e-9)}});
    }
    observer_.on_step(row);
  }

  void evaluate(MetricsFile& metrics) {
    EvaluationMetrics row = runner_.evaluate(
        *inputs_.data.eval, evaluation_batches(evaluation_sequences(executor_.plan()).value()));
    row.step = summary_.steps;
    summary_.evaluations.push_back(row);
    metrics.append({{"step", row.step}, {"eval_loss", row.loss}, {"eval_targets", row.targets}});
    observer_.on_evaluation(row);
  }

  bool evaluated_at_end() const {
    return !summary_.evaluations.empty() && summary_.evaluations.back().step == summary_.steps;
  }

  void save() {
    observer_.on_stage(fmt::format("saving to {}", folder_.string()));
    if (recipe_.lora) {
      save_adapter(executor_, recipe_, inputs_.model.spec, folder_);
    } else {
      save_model(executor_, inputs_.model.folder, folder_);
    }
    const Plan& plan = executor_.plan();
    for (int64_t bytes : plan.arena_bytes) {
      summary_.planned_bytes += bytes;
    }
    summary_.allocated_bytes = executor_.allocated_bytes();
    summary_.peak_used_bytes = executor_.touched_bytes();
    Json evaluations = Json::array();
    for (const EvaluationMetrics& row : summary_.evaluations) {
      evaluations.push_back({{"step", row.step}, {"loss", row.loss}});
    }
    Json summary = {{"steps", summary_.steps},
                    {"total_steps", summary_.total_steps},
                    {"interrupted", summary_.interrupted},
                    {"first_loss", summary_.first_loss},
                    {"last_loss", summary_.last_loss},
                    {"evaluations", evaluations},
                    {"tokens", summary_.tokens},
                    {"seconds", summary_.seconds},
                    {"trainable_parameters", plan.trainable_parameters},
                    {"planned_bytes", summary_.planned_bytes},
                    {"allocated_bytes", summary_.allocated_bytes},
                    {"peak_used_bytes", summary_.peak_used_bytes}};
    write_file_atomically(folder_ / "summary.json", summary.dump(2) + "\n");
  }

  const TrainInputs& inputs_;
  const Recipe& recipe_;
  std::filesystem::path folder_;
  TrainObserver& observer_;
  Executor executor_;
  StepRunner runner_;
  BatchSequence batches_;
  TrainSummary summary_;
  std::vector<StepMetrics> waiting_;  // for their results
  Clock::time_point waiting_since_;
};

}  // namespace

DataModel data_model(const LocatedModel& model) {
  DataModel result{.folder = model.folder, .decoder_start_id = {}, .vocabulary = model.spec.vocabulary};
  if (model.spec.has_encoder()) {
    result.decoder_start_id = static_cast<int32_t>(model.spec.decoder_start_id);
  }
  return result;
}

TrainInputs read_train_inputs(const Recipe& recipe, const LocatedModel& model, const DataObserver& observer) {
  const ModelSpec& spec = model.spec;
  if (recipe.data.max_length > spec.max_positions) {
    throw bad_input(fmt::format("data.max_length is {}, but {} was made for at most {} positions",
                                recipe.data.max_length, spec.source, spec.max_positions));
  }
  return {recipe, model, load_run_data(recipe, data_model(model), observer)};
}

TrainSummary train(const TrainInputs& inputs, const Plan& plan, Backend& backend, TrainObserver& observer) {
  SNUG_CHECK(plan.fits(), "a plan that does not fit is not run");
  return Trainer(inputs, plan, backend, observer).run();
}

}  // namespace snug
