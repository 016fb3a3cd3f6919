// Looks at each step for signs that nothing is learned: numbers that are not finite, updates that are
// skipped, a loss that explodes.
#pragma once

#include <cstdint>
#include <string>

#include "train/trainer.h"

namespace snug {

class LossWatch {
 public:
  // `scales_loss`: fp16, where a few skipped updates are how the scale of the loss is found.
  LossWatch(int64_t vocabulary, bool scales_loss);

  // What it has seen so far, for a run that is taken up again.
  const WatchMemory& memory() const { return memory_; }
  void recall(const WatchMemory& memory) { memory_ = memory; }

  // A warning about this step, or "".
  std::string see(const StepMetrics& step);
  // Why the run must end, or "": the loss is not finite, or too many updates in a row were skipped.
  const std::string& reason_to_stop() const { return reason_to_stop_; }
  bool loss_is_finite() const { return loss_is_finite_; }

 private:
  std::string look_at_update(const StepMetrics& step);
  std::string look_at_size(const StepMetrics& step);

  double guessing_loss_;  // of a model that thinks all tokens equally likely
  bool scales_loss_;
  std::string reason_to_stop_;
  bool loss_is_finite_ = true;
  WatchMemory memory_;
};

}  // namespace snug
