// What a run tells of itself while it goes, and to whom. Everything that follows a run (the terminal, the
// files in its folder, the watch over it) is a listener of this one stream.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "train/run_progress.h"
#include "train/trouble.h"

namespace snug {

// Work between the steps that takes a while; one that is done has `done` == `total`.
struct WorkProgress {
  std::string_view what;  // "evaluating"
  int64_t done = 0;       // bytes or batches
  int64_t total = 0;
};

// What the model wrote behind one of training.validation_prompts.
struct Sample {
  int64_t step = 0;
  int64_t number = 0;  // of the prompt, from 1
  std::string prompt;
  std::string reference;  // "" for none
  std::string text;
};

// What a run begins with; it is told when its folder is its own.
struct RunBeginning {
  std::filesystem::path folder;
  bool goes_on = false;  // with an earlier part's files
  int64_t planned_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t total_steps = 0;
  int64_t steps_done = 0;                             // by an earlier part
  std::optional<BestEvaluation> best = std::nullopt;  // of that one
};

// Called on the training thread, which waits meanwhile; what it does not override it does not hear.
class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void on_begin(const RunBeginning& /*beginning*/) {}
  virtual void on_stage(const std::string& /*text*/) {}  // "loading weights", one line
  virtual void on_progress(const WorkProgress& /*progress*/) {}
  virtual void on_step(const StepMetrics& /*metrics*/) {}  // each one
  virtual void on_evaluation(const EvaluationMetrics& /*metrics*/) {}
  virtual void on_sample(const Sample& /*sample*/) {}  // of the evaluation that was just told
  // Of an evaluation that was just told: better than all before it.
  virtual void on_best(const BestEvaluation& /*best*/) {}
  // A line of metrics.jsonl, with its time: of each step that is logged and of each evaluation, before these
  // are told.
  virtual void on_row(const Json& /*row*/) {}
  virtual void on_card(const CardHealth& /*health*/) {}  // now and then, of a card whose driver tells
  virtual void on_warning(const std::string& /*text*/) {}
  // What the watch over the run has found; a warning for those who do not tell the two apart.
  virtual void on_trouble(const Trouble& trouble) { on_warning(trouble.text()); }
  virtual void on_end(const TrainSummary& /*summary*/) {}  // last, also of a run that was stopped
  // Last of a run that ends by an error: its text. The run has let go of what was its own by then.
  virtual void on_failure(const std::string& /*text*/) {}
};

class RunEvents {
 public:
  // `should_stop` is asked often: the step in progress is dropped then, and what was learned before is kept
  // in a checkpoint.
  explicit RunEvents(std::function<bool()> should_stop = [] { return false; })
      : should_stop_(std::move(should_stop)) {}

  // It must outlive the run. Those who came first hear first.
  void listen(RunListener& listener) { listeners_.push_back(&listener); }
  bool should_stop() const { return should_stop_(); }

  void begin(const RunBeginning& beginning) const { tell(&RunListener::on_begin, beginning); }
  void card(const CardHealth& health) const { tell(&RunListener::on_card, health); }
  void stage(const std::string& text) const { tell(&RunListener::on_stage, text); }
  void progress(const WorkProgress& progress) const { tell(&RunListener::on_progress, progress); }
  void step(const StepMetrics& metrics) const { tell(&RunListener::on_step, metrics); }
  void evaluation(const EvaluationMetrics& metrics) const { tell(&RunListener::on_evaluation, metrics); }
  void sample(const Sample& sample) const { tell(&RunListener::on_sample, sample); }
  void best(const BestEvaluation& best) const { tell(&RunListener::on_best, best); }
  void row(const Json& row) const { tell(&RunListener::on_row, row); }
  void end(const TrainSummary& summary) const { tell(&RunListener::on_end, summary); }
  void trouble(const Trouble& trouble) const { tell(&RunListener::on_trouble, trouble); }
  // Does `work`, and tells why it failed where it does.
  template <typename Work>
  auto telling_failure(const Work& work) const {
    try {
      return work();
    } catch (const std::exception& error) {
      tell(&RunListener::on_failure, std::string(error.what()));
      throw;
    }
  }
  // "" is no warning. Listeners may warn too, of what they hear.
  void warn(const std::string& text) const {
    if (!text.empty()) {
      tell(&RunListener::on_warning, text);
    }
  }

 private:
  template <typename Event>
  void tell(void (RunListener::*hear)(const Event&), const Event& event) const {
    for (RunListener* listener : listeners_) {
      (listener->*hear)(event);
    }
  }

  std::function<bool()> should_stop_;
  std::vector<RunListener*> listeners_;
};

}  // namespace snug
