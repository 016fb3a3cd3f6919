// How far a run is, as the host knows it: what a summary tells, and what a checkpoint must carry on beside
// the device's state (train/state.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "program/step_clock.h"

namespace snug {

constexpr double share_of(int64_t part, int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

struct StepMetrics {
  int64_t step = 0;  // 1 after the first update
  int64_t total_steps = 0;
  double epoch = 0;
  double loss = 0;  // mean over the targets of the step
  double gradient_norm = 0;
  double learning_rate = 0;
  int64_t skipped_updates = 0;  // so far, this one included
  int64_t tokens = 0;           // of the step
  double seconds = 0;           // of the step
  double data_seconds = 0;      // of those, for which its data was waited for
  int64_t used_bytes = 0;       // of what is planned, so far

  bool was_skipped() const;  // gradients that are not finite change nothing
};

// Of one named set.
struct SetMetrics {
  std::string name;
  double loss = 0;
  int64_t targets = 0;
  int64_t hits = 0;           // targets that the model found most likely
  int64_t answers = 0;        // that were generated
  int64_t exact_answers = 0;  // those that are the data's

  double token_accuracy() const { return share_of(hits, targets); }
  double exact_match() const { return share_of(exact_answers, answers); }
};

struct EvaluationMetrics {
  int64_t step = 0;
  double loss = 0;
  int64_t targets = 0;
  int64_t hits = 0;
  int64_t answers = 0;
  int64_t exact_answers = 0;
  std::vector<SetMetrics> sets = {};
  bool complete = true;  // false: it was broken off

  double token_accuracy() const { return share_of(hits, targets); }
  double exact_match() const { return share_of(exact_answers, answers); }
};

// What the watch over a run remembers (train/run_watch.h).
struct WatchMemory {
  int64_t skipped_in_a_row = 0;
  double skipped_share = 0;  // of the last hundred steps or so
  int64_t updates = 0;       // at a rate above 0
  StepClock clock;           // of a loss that is scaled
  int64_t collapsed_in_a_row = 0;
  double smoothed = 0;
  double lowest_smoothed = 0;
  int64_t seen = 0;
  int64_t high_in_a_row = 0;
  int64_t zero_in_a_row = 0;
  bool adapters_seen = false;
  std::optional<double> last_evaluation;
  int64_t evaluations_rising = 0;  // in a row
  std::vector<std::string> told;   // kinds of trouble
};

// The evaluation that was best so far.
struct BestEvaluation {
  int64_t step = 0;
  double value = 0;
};

struct RunProgress {
  int64_t steps = 0;
  int64_t updates = 0;  // steps that changed the weights
  int64_t tokens = 0;
  double seconds = 0;
  double first_loss = 0;
  double last_loss = 0;
  std::vector<EvaluationMetrics> evaluations;
  std::optional<BestEvaluation> best;
  int64_t evaluations_no_better = 0;  // in a row
  std::vector<std::string> warnings;
  WatchMemory watch;

  int64_t skipped_updates() const { return steps - updates; }
};

// How a run went.
struct TrainSummary : RunProgress {
  int64_t total_steps = 0;
  int64_t planned_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t peak_used_bytes = 0;
  bool interrupted = false;
  bool ended_early = false;     // evaluations did not get better
  std::string checkpoint;       // the newest one's folder, or ""
  std::string stopped_because;  // "" unless there was nothing to be learned any more
};

Json progress_to_json(const RunProgress& progress);
// Throws bad_input, naming `source`, for what is not there or of another type.
RunProgress progress_from_json(const Json& json, const std::string& source);

}  // namespace snug
