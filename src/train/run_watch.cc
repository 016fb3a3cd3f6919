// The rules, each with its reason.
#include "train/run_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace snug {
namespace {

// The weights do not change while updates are skipped, so this many different batches failed with the same
// ones.
constexpr int64_t kSkippedInARow = 10;
// Of the last hundred steps or so.
constexpr double kSkippedShare = 0.4;
// A probability that fp32 cannot tell from 1 has this loss or less.
constexpr double kNoLoss = 1e-7;
constexpr int64_t kZeroInARow = 20;
// The mean over about ten steps has stood high for so long that no run of hard batches explains it.
constexpr int64_t kHighInARow = 50;
constexpr int64_t kRisingEvaluations = 3;
// A card is asked now and then; one reading is no trouble.
constexpr int64_t kHotInARow = 3;

constexpr std::string_view kLookAtDisk =
    "look at it (df, iostat, dmesg; a network folder may have lost its server)";

}  // namespace

RunWatch::RunWatch(const Run& run, const RunEvents& events)
    : run_(run),
      events_(events),
      guessing_loss_(std::log(static_cast<double>(std::max<int64_t>(run.vocabulary, 2)))) {}

std::string RunWatch::against_divergence() const {
  return fmt::format("Lower training.learning_rate (now {}), or lengthen the warm-up", run_.learning_rate);
}

bool RunWatch::was_told(std::string_view name) const {
  return std::find(memory_.told.begin(), memory_.told.end(), name) != memory_.told.end();
}

void RunWatch::raise(const Trouble& trouble) {
  if (reason_to_stop_) {
    return;  // the first reason stands
  }
  if (trouble.is_fatal && run_.on_trouble == OnTrouble::stop) {
    reason_to_stop_ = trouble;
    return;
  }
  if (!was_told(trouble.name)) {
    memory_.told.emplace_back(trouble.name);
    events_.trouble(trouble);
  }
}

bool RunWatch::is_suspicious() const {
  return run_.on_trouble == OnTrouble::stop && (memory_.high_in_a_row > 0 || memory_.zero_in_a_row > 0);
}

void RunWatch::on_step(const StepMetrics& step) {
  if (reason_to_stop_) {
    return;
  }
  if (!std::isfinite(step.loss)) {
    loss_is_finite_ = false;
    raise({.name = "loss is not finite",
           .what = fmt::format("the loss of step {} is {}", step.step,
                               std::isnan(step.loss) ? "nan" : "infinite"),
           .remedy = fmt::format("Training has diverged. {}", against_divergence()),
           .is_fatal = true});
  }
  look_at_update(step);
  if (run_.scales_loss) {
    look_at_scale(step);
  }
  if (std::isfinite(step.loss)) {
    look_at_size(step);
    look_at_zero(step);
  }
}

void RunWatch::look_at_update(const StepMetrics& step) {
  bool skipped = step.was_skipped();
  memory_.skipped_share = 0.98 * memory_.skipped_share + (skipped ? 0.02 : 0);
  memory_.updates += !skipped && step.learning_rate > 0 ? 1 : 0;
  if (!skipped) {
    memory_.skipped_in_a_row = 0;
    return;
  }
  ++memory_.skipped_in_a_row;
  std::string_view remedy =
      "Numbers overflow in the backward pass: lower training.learning_rate or lora.lora_alpha, or look at "
      "the "
      "data of this step";
  if (memory_.skipped_in_a_row >= kSkippedInARow && !run_.scales_loss) {
    raise({.name = "no update is made",
           .what = fmt::format("the gradients of the last {} steps were not finite, so that nothing was "
                               "learned from them (the loss of step {} is {:.4g})",
                               memory_.skipped_in_a_row, step.step, step.loss),
           .remedy = std::string(remedy),
           .is_fatal = true});
  }
  if (!run_.scales_loss && std::isfinite(step.loss)) {
    raise({.name = "gradients are not finite",
           .what = fmt::format("the gradient norm of step {} is not finite, though its loss is {:.4g}: this "
                               "update was skipped, and so will others like it",
                               step.step, step.loss),
           .remedy = std::string(remedy)});
  }
  if (memory_.skipped_share > kSkippedShare) {
    raise({.name = "updates are skipped again and again",
           .what = fmt::format("{} updates were skipped up to step {}, and {:.0f}% of the last hundred or so",
                               step.skipped_updates, step.step, 100 * memory_.skipped_share),
           .remedy = std::string(remedy)});
  }
}

// The scale is what the card's own clock has: it follows from which steps were finite.
void RunWatch::look_at_scale(const StepMetrics& step) {
  bool was_smallest = memory_.clock.loss_scale(true) <= 1;
  memory_.clock.close_step(!step.was_skipped(), true);
  bool collapsed = step.was_skipped() && was_smallest;
  memory_.collapsed_in_a_row = collapsed ? memory_.collapsed_in_a_row + 1 : 0;
  if (!collapsed) {
    return;
  }
  raise({.name = "the loss scale has collapsed",
         .what = fmt::format("the loss scale of fp16 has fallen to 1, and the gradients of the last {} steps "
                             "still were not finite (the loss of step {} is {:.4g})",
                             memory_.collapsed_in_a_row, step.step, step.loss),
         .remedy = "Numbers are too large for fp16: use model.dtype: bf16 (or fp32 where the card has no "
                   "bf16), or lower training.learning_rate or lora.lora_alpha",
         .is_fatal = memory_.collapsed_in_a_row >= kSkippedInARow});
}

bool RunWatch::is_high() const {
  bool has_risen =
      memory_.smoothed > 2 * memory_.lowest_smoothed && memory_.smoothed > memory_.lowest_smoothed + 2;
  bool is_absurd = memory_.smoothed > 2 * guessing_loss_ && memory_.lowest_smoothed < guessing_loss_;
  return has_risen || is_absurd;
}

void RunWatch::look_at_size(const StepMetrics& step) {
  memory_.smoothed = memory_.seen == 0 ? step.loss : 0.9 * memory_.smoothed + 0.1 * step.loss;
  memory_.lowest_smoothed =
      memory_.seen == 0 ? memory_.smoothed : std::min(memory_.lowest_smoothed, memory_.smoothed);
  ++memory_.seen;
  memory_.high_in_a_row = is_high() ? memory_.high_in_a_row + 1 : 0;
  constexpr std::string_view kName = "the loss explodes";
  if (memory_.high_in_a_row >= kHighInARow) {
    raise({.name = "the loss has exploded",
           .what = fmt::format("the loss has risen from {:.4g} to {:.4g} (means over about ten steps), and "
                               "has stayed there for {} steps, up to step {}",
                               memory_.lowest_smoothed, memory_.smoothed, memory_.high_in_a_row, step.step),
           .remedy = fmt::format("Training has diverged. {}", against_divergence()),
           .is_fatal = true});
  }
  // Twice the loss of guessing: a model that is wrong and sure of it, which no batch of a working one is.
  if (step.loss > 2 * guessing_loss_) {
    raise({.name = kName,
           .what = fmt::format("the loss of step {} is {:.6g}; guessing among all tokens of the vocabulary "
                               "would give {:.4g}",
                               step.step, step.loss, guessing_loss_),
           .remedy = step.step == 1 ? "Nothing was learned yet: these weights and this config.json or "
                                      "tokenizer do not belong together, or the data is of another kind"
                                    : fmt::format("Training is diverging. {}", against_divergence())});
  } else if (is_high()) {  // over about ten steps, so that one hard batch is none
    raise({.name = kName,
           .what = fmt::format("the loss has risen from {:.4g} to {:.4g} (means over about ten steps, at "
                               "step {})",
                               memory_.lowest_smoothed, memory_.smoothed, step.step),
           .remedy = fmt::format("Training may be diverging. {}", against_divergence())});
  }
}

void RunWatch::look_at_zero(const StepMetrics& step) {
  memory_.zero_in_a_row = step.loss <= kNoLoss ? memory_.zero_in_a_row + 1 : 0;
  if (memory_.zero_in_a_row < kZeroInARow) {
    return;
  }
  raise({.name = "the loss stays at 0",
         .what = fmt::format("the loss of the last {} steps, up to step {}, is 0", memory_.zero_in_a_row,
                             step.step),
         .remedy =
             "There is nothing left to learn: look at what is learned with snug data RECIPE --examples 3 "
             "(is the answer empty, or part of the prompt?); if it is right, the model knows the data "
             "by heart, and fewer epochs do",
         .is_fatal = true});
}

void RunWatch::on_evaluation(const EvaluationMetrics& metrics) {
  bool rises = memory_.last_evaluation && metrics.loss > *memory_.last_evaluation;
  memory_.evaluations_rising = rises ? memory_.evaluations_rising + 1 : 0;
  memory_.last_evaluation = metrics.loss;
  if (!std::isfinite(metrics.loss)) {
    raise({.name = "an evaluation is not finite",
           .what = fmt::format("the loss of the evaluation at step {} is not finite", metrics.step),
           .remedy = fmt::format("Training may be diverging. {}", against_divergence())});
  }
  if (memory_.evaluations_rising >= kRisingEvaluations) {
    raise({.name = "evaluations only rise",
           .what = fmt::format("the evaluation's loss has risen {} times in a row, to {:.4g} at step {}",
                               memory_.evaluations_rising, metrics.loss, metrics.step),
           .remedy = "What is learned now does not carry over to other data: take the best checkpoint "
                     "(training.load_best_model_at_end), end such runs by training.early_stopping_patience, "
                     "train for fewer epochs or at a lower training.learning_rate"});
  }
}

void RunWatch::see_adapters(const std::vector<std::string>& unchanged, int64_t all) {
  memory_.adapters_seen = true;
  if (unchanged.empty()) {
    return;
  }
  bool is_every_one = std::ssize(unchanged) == all;
  raise({.name = "adapters learn nothing",
         .what = fmt::format("after {} updates {} of {} adapters are what they began with, {} first of all: "
                             "their gradients were always 0",
                             memory_.updates, unchanged.size(), all, unchanged.front()),
         .remedy = "What they lie on does not reach the loss: look for weights that are all 0 there, or "
                   "leave these modules out (lora.exclude_modules)",
         .is_fatal = is_every_one});
}

void RunWatch::see_data_wait(double seconds) {
  if (seconds >= run_.stall_seconds) {
    raise(
        {.name = "the data stalls",
         .what = fmt::format("the next batch did not come for {:.0f} s", seconds),
         .remedy = fmt::format("The disk of the data does not answer, or is far too slow: {}", kLookAtDisk)});
  }
}

void RunWatch::see_disk_wait(double seconds) {
  if (seconds >= run_.stall_seconds) {
    raise({.name = "the disk stalls",
           .what = fmt::format("nothing of a checkpoint was written for {:.0f} s", seconds),
           .remedy =
               fmt::format("The disk of output_dir does not answer, or is far too slow: {}", kLookAtDisk)});
  }
}

void RunWatch::on_card(const CardHealth& health) {
  hot_in_a_row_ = health.is_slowed_by_heat || health.is_slowed_by_power_brake ? hot_in_a_row_ + 1 : 0;
  if (hot_in_a_row_ < kHotInARow) {
    return;
  }
  raise({.name = "the card is slowed down",
         .what = fmt::format("the card is slowed down {}{}",
                             health.is_slowed_by_heat ? "by its heat" : "by its power supply",
                             health.celsius ? fmt::format(" ({} °C)", *health.celsius) : ""),
         .remedy = health.is_slowed_by_heat
                       ? "Look at its fans and the air around it, or lower its power limit (nvidia-smi -pl)"
                       : "Look at its power supply and cables (nvidia-smi -q -d PERFORMANCE)"});
}

}  // namespace snug
