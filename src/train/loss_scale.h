// Dynamic loss scaling: fp16 has no small numbers, so the loss is multiplied until its gradients are in
// reach, and the optimizer divides again. As torch.amp.GradScaler does it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace snug {

class LossScale {
 public:
  explicit LossScale(bool active) : active_(active), value_(active ? kFirst : 1.0F) {}

  float value() const { return value_; }

  // After a step. Gradients that are not finite mean that the scale was too large: that update was skipped.
  void after_step(bool finite) {
    if (!active_) {
      return;
    }
    if (!finite) {
      value_ = std::max(value_ / 2, 1.0F);
      good_steps_ = 0;
    } else if (++good_steps_ == kStepsToGrow) {
      value_ = std::min(value_ * 2, kLargest);
      good_steps_ = 0;
    }
  }

 private:
  static constexpr float kFirst = 65536.0F;
  static constexpr float kLargest = 16777216.0F;
  static constexpr int64_t kStepsToGrow = 2000;

  bool active_;
  float value_;
  int64_t good_steps_ = 0;
};

}  // namespace snug
