// The loop around the steps.
#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/unix_time.h"
#include "compile/phases.h"
#include "data/batches/limits.h"
#include "plan/training.h"
#include "recipe/eval_metric.h"
#include "recipe/scheduler_kwargs.h"
#include "train/adapter_files.h"
#include "train/answers.h"
#include "train/best_evaluation.h"
#include "train/checkpoint.h"
#include "train/first_loss.h"
#include "train/idle_adapters.h"
#include "train/metrics_rows.h"
#include "train/run_output.h"
#include "train/run_watch.h"
#include "train/weights.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// They are kept for the summary, and with checkpoints.
class WarningList : public RunListener {
 public:
  explicit WarningList(RunProgress& progress) : progress_(progress) {}
  void on_warning(const std::string& text) override { progress_.warnings.push_back(text); }

 private:
  RunProgress& progress_;
};

// A card is asked no more often: it costs a call of the driver.
constexpr double kSecondsBetweenLooks = 10;

class Trainer {
 public:
  Trainer(const TrainInputs& inputs, const Plan& plan, Backend& backend, RunEvents events, RunFolder& folder)
      : inputs_(inputs),
        recipe_(inputs.recipe),
        folder_(folder.path()),
        events_(std::move(events)),
        output_(inputs, folder),
        executor_(plan, backend),
        runner_(executor_, recipe_.training),
        watch_({.vocabulary = inputs.model.spec.vocabulary,
                .scales_loss = runner_.scales_loss(),
                .on_trouble = recipe_.training.on_trouble,
                .learning_rate = recipe_.training.learning_rate,
                .stall_seconds = inputs.stall_seconds},
               events_),
        batches_(inputs.data.train,
                 training_batches(recipe_, inputs.data.train, planned_batch(plan, kTrainPhase))) {
    events_.listen(warnings_);
    if (evaluates() && most_new_tokens(recipe_.training) > 0) {
      answers_.emplace(executor_, inputs.model.folder);
    }
  }

  TrainSummary run() {
    summary_.total_steps = batches_.total_steps();
    std::string problem = find_warmup_problem(recipe_.training, summary_.total_steps);
    if (!problem.empty()) {
      throw bad_input(problem);
    }
    output_.begin(executor_.plan(), executor_.backend(), summary_.total_steps, events_);
    events_.begin({.folder = folder_,
                   .goes_on = inputs_.resume.has_value(),
                   .planned_bytes = executor_.plan().all_bytes(),
                   .allocated_bytes = executor_.allocated_bytes(),
                   .total_steps = summary_.total_steps,
                   .steps_done = inputs_.resume ? inputs_.resume->progress.steps : 0,
                   .best = inputs_.resume ? inputs_.resume->progress.best : std::nullopt});
    events_.listen(watch_);  // last, so that others have heard of what it finds trouble in
    load();
    train_steps();
    end_if_nothing_is_learned();
    if (!summary_.interrupted) {
      end_run();
    }
    if (summary_.interrupted) {
      save_checkpoint();
    }
    finish();
    return summary_;
  }

 private:
  void load() {
    auto seed = static_cast<uint64_t>(recipe_.training.seed);
    load_constants(executor_);
    bool in_checkpoint = inputs_.resume && !recipe_.lora;
    if (recipe_.model.from_scratch && !in_checkpoint) {
      events_.stage("making fresh weights");
      initialize_weights(executor_, inputs_.model.spec, seed);
    } else if (!in_checkpoint) {
      TensorSource source = open_tensors(inputs_.model.folder);
      require_tensors(executor_.plan(), Role::base_weights, source, inputs_.model.folder);
      events_.stage(fmt::format("loading weights, {}", format_bytes(source.stored_bytes())));
      load_tensors(executor_, Role::base_weights, source, progress_of("loading weights"));
    }
    if (!inputs_.frozen_adapter.empty()) {
      load_frozen_adapter(executor_, inputs_.frozen_adapter);
    }
    if (inputs_.resume) {
      go_on(*inputs_.resume);
    } else if (!inputs_.start_adapter.empty()) {
      events_.stage(fmt::format("going on with the adapter {}", inputs_.start_adapter.string()));
      load_adapter(executor_, inputs_.start_adapter);
    } else if (recipe_.lora) {
      initialize_adapters(executor_, seed);
    }
  }

  BytesObserver progress_of(const char* what) {
    return [this, what](int64_t done, int64_t total) { events_.progress({what, done, total}); };
  }

  void go_on(const ResumePoint& point) {
    events_.stage(fmt::format("going on from {}, step {}", point.folder.string(), point.progress.steps));
    load_checkpoint(executor_, inputs_, point.folder);
    static_cast<RunProgress&>(summary_) = point.progress;
    watch_.recall(point.progress.watch);
    runner_.go_on(summary_.steps, summary_.updates);
    batches_.seek(std::min(summary_.steps, summary_.total_steps));
    saved_step_ = summary_.steps;
    seconds_before_ = summary_.seconds;
  }

  void train_steps() {
    start_ = Clock::now();
    waiting_since_ = start_;
    saved_at_ = start_;
    summary_.interrupted = events_.should_stop();
    if (inputs_.evaluates_first && !inputs_.resume && evaluates() && !summary_.interrupted) {
      measure();
    }
    if (inputs_.resume && is_evaluation_due() && !evaluated_at_end()) {  // it was broken off
      evaluate();
    }
    while (!summary_.interrupted && !watch_.reason_to_stop() && !has_lost_patience()) {
      double epoch_before = batches_.epoch();
      Clock::time_point asked = Clock::now();
      std::vector<Batch> step = batches_.next_step();
      data_seconds_ = seconds_since(asked);
      watch_.see_data_wait(data_seconds_);
      if (step.empty()) {
        break;
      }
      if (!enqueue(step)) {
        summary_.interrupted = true;
        break;
      }
      bool evaluation_due = is_evaluation_due();
      bool checkpoint_due = is_checkpoint_due(epoch_before);
      if (results_due() || evaluation_due || checkpoint_due) {
        record_results();
      }
      if (evaluation_due && !watch_.reason_to_stop()) {
        evaluate();
      }
      bool is_good = !watch_.reason_to_stop() && !watch_.is_suspicious();
      if (checkpoint_due && !summary_.interrupted && is_good) {
        save_checkpoint();
      }
    }
    if (!waiting_.empty()) {
      record_results();
    }
    events_.warn(output_.wait_for_checkpoint());
  }

  // All steps are done.
  void end_run() {
    // What was learned is brought to the disk before anything else can end the run.
    save_result();
    SaveStrategy strategy = recipe_.training.save_strategy;
    if (strategy != SaveStrategy::no && strategy != SaveStrategy::best) {
      save_checkpoint();
    }
    if (evaluates() && !evaluated_at_end()) {
      evaluate();
    }
    if (recipe_.training.load_best_model_at_end && !summary_.interrupted) {
      take_best();
    }
  }

  void save_result() {
    events_.stage(fmt::format("saving to {}", folder_.string()));
    output_.save_result(executor_, progress_of("saving"));
  }

  void take_best() {
    if (!summary_.best || summary_.best->step == summary_.steps) {
      return;
    }
    std::filesystem::path best = output_.checkpoint_of(summary_.best->step);
    if (best.empty()) {
      events_.warn(fmt::format(
          "the best evaluation was that of step {}, of which there is no checkpoint: the result is "
          "the last step's. training.save_strategy: best keeps one",
          summary_.best->step));
      return;
    }
    events_.stage(fmt::format("taking {}, the best evaluation", best.filename().string()));
    load_checkpoint(executor_, inputs_, best);
    save_result();
  }

  bool is_evaluation_due() const {
    return evaluates() && is_multiple(summary_.steps, recipe_.training.eval_steps);
  }
  bool evaluates() const { return !inputs_.data.evaluated().empty(); }

  bool is_checkpoint_due(double epoch_before) const {
    switch (recipe_.training.save_strategy) {
      case SaveStrategy::steps:
        return is_multiple(summary_.steps, recipe_.training.save_steps);
      case SaveStrategy::epoch:
        return std::floor(batches_.epoch()) > std::floor(epoch_before);
      case SaveStrategy::minutes:
        return seconds_since(saved_at_) >= 60 * recipe_.training.save_minutes;
      case SaveStrategy::best:  // where it is evaluated
      case SaveStrategy::no:
        return false;
    }
    return false;
  }

  // Unless there is one of this step. Results must have been recorded.
  void save_checkpoint() {
    if (summary_.updates == 0 || saved_step_ == summary_.steps) {
      return;
    }
    events_.warn(output_.wait_for_checkpoint());
    events_.stage(fmt::format("saving {}", checkpoint_name(summary_.steps)));
    summary_.watch = watch_.memory();
    bool is_last = summary_.interrupted || has_lost_patience() || summary_.steps >= summary_.total_steps;
    events_.warn(
        output_.save_checkpoint(executor_, summary_, summary_.total_steps, is_last, progress_of("saving")));
    saved_step_ = summary_.steps;
    saved_at_ = Clock::now();
    waiting_since_ = saved_at_;
  }

  static bool is_multiple(int64_t step, int64_t of) { return of > 0 && step > 0 && step % of == 0; }

  // Reading results makes the host wait for a card, so it is done for the steps that are logged.
  bool results_due() const {
    return !executor_.runs_ahead() || runner_.history_full() || is_logged(summary_.steps);
  }
  bool is_logged(int64_t step) const {
    return step == 1 || step == summary_.total_steps || is_multiple(step, recipe_.logging.logging_steps);
  }

  // False if the run is to stop: the step is dropped then.
  bool enqueue(const std::vector<Batch>& step) {
    bool whole = runner_.enqueue_step(step, summary_.steps, summary_.total_steps,
                                      [&] { return events_.should_stop(); });
    if (!whole) {
      return false;
    }
    StepMetrics row;
    row.step = ++summary_.steps;
    row.total_steps = summary_.total_steps;
    row.epoch = batches_.epoch();
    row.data_seconds = data_seconds_;
    for (const Batch& batch : step) {
      row.tokens += batch.tokens() + batch.source_tokens();
    }
    waiting_.push_back(row);
    // The device has this step to do while the host makes the next one; further ahead, a signal would have to
    // wait for steps that nobody can call back.
    if (step_before_) {
      executor_.backend().wait_for(*step_before_);
    }
    step_before_ = executor_.backend().mark();
    return true;
  }

  // Waits for the steps enqueued so far. Each is said to have taken its share of the time, by its tokens.
  void record_results() {
    std::vector<StepResult> results = runner_.take_results();
    double tokens = 0;
    for (const StepMetrics& row : waiting_) {
      tokens += static_cast<double>(row.tokens);
    }
    double seconds_per_token = seconds_since(waiting_since_) / std::max(tokens, 1.0);
    for (size_t i = 0; i < results.size(); ++i) {
      StepMetrics& row = waiting_[i];
      row.loss = results[i].loss;
      row.gradient_norm = results[i].gradient_norm;
      row.learning_rate = results[i].learning_rate;
      row.used_bytes = executor_.announced_bytes();
      row.seconds = seconds_per_token * static_cast<double>(row.tokens);
      record(row);
    }
    waiting_.clear();
    waiting_since_ = Clock::now();
    step_before_.reset();  // what it marked is done, and others set marks between steps
    summary_.seconds = seconds_before_ + seconds_since(start_);
    events_.warn(output_.look_at_checkpoint());
    look_around();
  }

  // At what steps do not tell.
  void look_around() {
    if (std::optional<double> seconds = output_.seconds_without_progress()) {
      watch_.see_disk_wait(*seconds);
    }
    if (seconds_since(card_seen_at_) >= kSecondsBetweenLooks) {
      card_seen_at_ = Clock::now();
      card_ = executor_.backend().health();
      if (card_) {
        events_.card(*card_);
      }
    }
    bool began_at_nothing = recipe_.lora && inputs_.start_adapter.empty();
    if (began_at_nothing && watch_.is_time_for_adapters()) {
      DeviceReader reader(executor_);
      AdapterChange change = find_unchanged_adapters(reader);
      watch_.see_adapters(change.unchanged, change.all);
    }
  }

  void record(StepMetrics& row) {
    summary_.updates += row.was_skipped() ? 0 : 1;
    row.skipped_updates = row.step - summary_.updates;
    summary_.tokens += row.tokens;
    summary_.last_loss = row.loss;
    if (row.step == 1) {
      summary_.first_loss = row.loss;
    }
    if (is_logged(row.step)) {
      Json json = step_row(row, summary_.tokens);
      if (card_) {
        add_card(*card_, json);
      }
      tell_row(std::move(json));
    }
    events_.step(row);
  }

  void tell_row(Json row) const {
    row["time"] = unix_seconds();
    events_.row(row);
  }

  void evaluate() {
    if (!measure()) {
      return;
    }
    bool is_best = note_evaluation(summary_.evaluations.back(), recipe_.training, summary_);
    if (is_best) {
      events_.best(*summary_.best);
    }
    if (is_best && recipe_.training.save_strategy == SaveStrategy::best) {
      save_checkpoint();
    }
    waiting_since_ = Clock::now();
  }

  // Evaluates and tells of it; false if that was broken off.
  bool measure() {
    EvaluationMetrics row = evaluate_sets();
    std::vector<Sample> samples;
    if (row.complete) {
      row.complete = write_samples(samples);
    }
    if (!row.complete) {
      summary_.interrupted = true;
      return false;
    }
    row.step = summary_.steps;
    summary_.evaluations.push_back(row);
    tell_row(evaluation_row(row));
    for (const Sample& sample : samples) {
      tell_row(sample_row(sample));
    }
    events_.evaluation(row);
    for (const Sample& sample : samples) {
      events_.sample(sample);
    }
    waiting_since_ = Clock::now();
    return true;
  }

  // The loss of all is that of the run's own sets; those of earlier stages stand beside it.
  EvaluationMetrics evaluate_sets() {
    EvaluationMetrics all;
    double loss_sum = 0;
    auto add = [&](const std::string& name, const Dataset& dataset, bool is_own) {
      BatchLimits most = planned_batch(executor_.plan(), kEvaluatePhase);
      EvaluationMetrics one = runner_.evaluate(
          dataset, most, [&](int64_t done, int64_t total) { return goes_on("evaluating", done, total); });
      if (recipe_.training.eval_max_new_tokens > 0 && one.complete) {
        generate_answers(dataset, one);
      }
      all.complete = all.complete && one.complete;
      if (is_own) {
        all.targets += one.targets;
        all.hits += one.hits;
        all.answers += one.answers;
        all.exact_answers += one.exact_answers;
        loss_sum += one.loss * static_cast<double>(one.targets);
      }
      if (!name.empty()) {
        all.sets.push_back({name, one.loss, one.targets, one.hits, one.answers, one.exact_answers});
      }
    };
    const RunData& data = inputs_.data;
    if (data.eval && data.eval_sets.empty()) {
      add("", *data.eval, true);
    }
    for (size_t i = 0; i < data.eval_sets.size() && all.complete; ++i) {
      add(data.eval_sets[i].name, data.eval_sets[i].data, true);
    }
    for (size_t i = 0; i < data.earlier.size() && all.complete; ++i) {
      add(data.earlier[i].name, data.earlier[i].data, !data.eval);
    }
    all.loss = loss_sum / static_cast<double>(std::max<int64_t>(all.targets, 1));
    return all;
  }

  void generate_answers(const Dataset& dataset, EvaluationMetrics& metrics) {
    AnswerCounts counts = answers_->count_exact(
        questions_of(dataset, recipe_.training.eval_generated_rows), recipe_.training.eval_max_new_tokens,
        [&](int64_t done, int64_t total) { return goes_on("answering", done, total); });
    metrics.answers = counts.answers;
    metrics.exact_answers = counts.exact;
    metrics.complete = counts.complete;
  }

  // False if that was broken off.
  bool write_samples(std::vector<Sample>& samples) {
    const std::vector<SamplePrompt>& prompts = inputs_.data.samples;
    for (const SamplePrompt& prompt : prompts) {
      int64_t number = std::ssize(samples) + 1;
      // Each draws for itself, whatever was drawn before.
      uint64_t seed = mix(mix(static_cast<uint64_t>(recipe_.training.seed) + (1ULL << 32)) +
                          mix(static_cast<uint64_t>(summary_.steps)) + static_cast<uint64_t>(number));
      SamplingOptions how{.max_new_tokens = recipe_.training.validation_max_new_tokens,
                          .temperature = recipe_.training.validation_temperature,
                          .seed = seed,
                          .stop_ids = {}};
      samples.push_back({.step = summary_.steps,
                         .number = number,
                         .prompt = prompt.text,
                         .reference = prompt.reference,
                         .text = answers_->write(prompt.question, how)});
      if (!goes_on("writing samples", number, std::ssize(prompts))) {
        return false;
      }
    }
    return true;
  }

  bool goes_on(std::string_view what, int64_t done, int64_t total) const {
    events_.progress({what, done, total});
    return !events_.should_stop();
  }

  bool has_lost_patience() const { return snug::has_lost_patience(recipe_.training, summary_); }

  bool evaluated_at_end() const {
    return !summary_.evaluations.empty() && summary_.evaluations.back().step == summary_.steps;
  }

  void finish() {
    summary_.planned_bytes = executor_.plan().all_bytes();
    summary_.allocated_bytes = executor_.allocated_bytes();
    summary_.peak_used_bytes = executor_.announced_bytes();
    summary_.checkpoint = output_.last_checkpoint().string();
    summary_.ended_early = has_lost_patience() && summary_.steps < summary_.total_steps;
    events_.end(summary_);
    output_.finish(summary_, executor_.plan(), executor_.backend());
  }

  void end_if_nothing_is_learned() {
    const std::optional<Trouble>& trouble = watch_.reason_to_stop();
    std::string reason = trouble ? trouble->what : "";
    if (!trouble && summary_.updates == 0 && summary_.steps > 0 && !summary_.interrupted) {
      reason = fmt::format("the gradients of all {} steps were not finite", summary_.steps);
    }
    if (reason.empty()) {
      return;
    }
    if (summary_.updates == 0) {
      throw bad_input(fmt::format(
          "{}, and nothing was learned before: {}. Nothing was saved", reason,
          !watch_.loss_is_finite() ? explain_first_loss(inputs_)
          : trouble
              ? trouble->remedy
              : "numbers overflow in the backward pass; lower lora.lora_alpha, or try model.dtype: fp32"));
    }
    summary_.stopped_because = reason;
    std::string kept;
    if (output_.last_checkpoint().empty()) {
      save_result();
      kept = fmt::format("What the {} updates before it learned is in {}; test it before you use it",
                         summary_.updates, folder_.string());
    } else {
      kept = fmt::format("The last good checkpoint is {}", output_.last_checkpoint().string());
    }
    finish();
    throw bad_input(fmt::format("{}. {}", trouble->text(), kept));
  }

  const TrainInputs& inputs_;
  const Recipe& recipe_;
  std::filesystem::path folder_;
  RunEvents events_;
  RunOutput output_;
  Executor executor_;
  StepRunner runner_;
  RunWatch watch_;
  BatchSequence batches_;
  std::optional<Answers> answers_;  // of a run that generates some where it evaluates
  TrainSummary summary_;
  WarningList warnings_{summary_};
  std::vector<StepMetrics> waiting_;     // for their results
  std::optional<uint64_t> step_before_;  // a mark
  int64_t saved_step_ = 0;               // of the newest checkpoint
  double data_seconds_ = 0;              // that the step's data was waited for
  double seconds_before_ = 0;            // of the run's earlier parts
  Clock::time_point start_;
  Clock::time_point waiting_since_;
  Clock::time_point saved_at_;
  Clock::time_point card_seen_at_;
  std::optional<CardHealth> card_;  // as it was then
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
  std::filesystem::path start = recipe.lora ? recipe.lora->start : "";
  if (!start.empty()) {
    require_same_adapter(*recipe.lora, start);
  }
  return {.recipe = recipe,
          .model = model,
          .data = load_run_data(recipe, data_model(model), observer),
          .start_adapter = std::move(start)};
}

TrainSummary train(const TrainInputs& inputs, const Plan& plan, Backend& backend, RunEvents events,
                   RunFolder& folder) {
  SNUG_CHECK(plan.fits(), "a plan that does not fit is not run");
  return events.telling_failure([&] { return Trainer(inputs, plan, backend, events, folder).run(); });
}

}  // namespace snug
