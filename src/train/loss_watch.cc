// The rules, each with its reason.
#include "train/loss_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "program/step_clock.h"

namespace snug {
namespace {

// The weights do not change while updates are skipped, so this many different batches failed with the same
// ones.
constexpr int64_t kSkippedInARow = 10;

}  // namespace

LossWatch::LossWatch(int64_t vocabulary, bool scales_loss)
    : guessing_loss_(std::log(static_cast<double>(std::max<int64_t>(vocabulary, 2)))),
      scales_loss_(scales_loss) {}

std::string LossWatch::see(const StepMetrics& step) {
  if (!reason_to_stop_.empty()) {
    return "";  // the first reason stands
  }
  if (!std::isfinite(step.loss)) {
    loss_is_finite_ = false;
    reason_to_stop_ =
        fmt::format("the loss of step {} is {}", step.step, std::isnan(step.loss) ? "nan" : "infinite");
    return "";
  }
  std::string warning = look_at_update(step);
  return warning.empty() ? look_at_size(step) : warning;
}

std::string LossWatch::look_at_update(const StepMetrics& step) {
  if (!step.was_skipped()) {
    memory_.skipped_in_a_row = 0;
    return "";
  }
  // From its largest scale down, fp16 skips one update for each halving.
  int64_t limit = kSkippedInARow + (scales_loss_ ? StepClock::kLargestExponent : 0);
  if (++memory_.skipped_in_a_row >= limit) {
    reason_to_stop_ = fmt::format(
        "the gradients of the last {} steps were not finite, so that nothing was learned from them (the "
        "loss of step {} is {:.4g})",
        memory_.skipped_in_a_row, step.step, step.loss);
    return "";
  }
  if (scales_loss_ || memory_.warned_of_skips) {
    return "";
  }
  memory_.warned_of_skips = true;
  return fmt::format(
      "the gradient norm of step {} is not finite, though its loss is {:.4g}: this update was skipped, and "
      "so will others like it. Numbers overflow in the backward pass: lower training.learning_rate or "
      "lora.lora_alpha, or look at the data of this step",
      step.step, step.loss);
}

std::string LossWatch::look_at_size(const StepMetrics& step) {
  memory_.smoothed = memory_.seen == 0 ? step.loss : 0.9 * memory_.smoothed + 0.1 * step.loss;
  memory_.lowest_smoothed =
      memory_.seen == 0 ? memory_.smoothed : std::min(memory_.lowest_smoothed, memory_.smoothed);
  ++memory_.seen;
  if (memory_.warned_of_size) {
    return "";
  }
  // Twice the loss of guessing: a model that is wrong and sure of it, which no batch of a working one is.
  if (step.loss > 2 * guessing_loss_) {
    memory_.warned_of_size = true;
    return fmt::format(
        "the loss of step {} is {:.6g}; guessing among all tokens of the vocabulary would give {:.4g}. {}",
        step.step, step.loss, guessing_loss_,
        step.step == 1
            ? "Nothing was learned yet: these weights and this config.json or tokenizer do not belong "
              "together, or the data is of another kind"
            : "Training is diverging: lower training.learning_rate, or lengthen the warm-up");
  }
  // Over about ten steps, so that one hard batch is none.
  if (memory_.smoothed > 2 * memory_.lowest_smoothed && memory_.smoothed > memory_.lowest_smoothed + 2) {
    memory_.warned_of_size = true;
    return fmt::format(
        "the loss has risen from {:.4g} to {:.4g} (means over about ten steps, at step {}): training may be "
        "diverging. Lower training.learning_rate, or lengthen the warm-up",
        memory_.lowest_smoothed, memory_.smoothed, step.step);
  }
  return "";
}

}  // namespace snug
