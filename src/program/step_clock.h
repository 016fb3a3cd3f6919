// What steps leave behind for the steps after them: the loss scale, and how many updates were made. It lives
// with the parameters, so that no step waits for the host to decide. All counts start at 0.
//
// The learning rate follows the updates, not the steps. How many were made only the clock knows, so the host
// gives a step the rates of all updates that it may turn out to be: a ring, in which update u has place
// u % (size of the ring).
#pragma once

#include <cstdint>

namespace snug {

// Dynamic loss scaling as torch.amp.GradScaler does it: fp16 has no small numbers, so the loss is multiplied
// until its gradients are in reach, and the optimizer divides again.
struct StepClock {
  int64_t doublings = 0;   // of the loss scale since the start, less the halvings
  int64_t good_steps = 0;  // since the loss scale last changed
  int64_t updates = 0;
  int64_t steps = 0;  // updates, and the steps whose gradients were not finite

  constexpr float loss_scale(bool active) const {
    return active ? static_cast<float>(int64_t{1} << (kFirstExponent + doublings)) : 1.0F;
  }

  // Gradients that are not finite mean that the scale was too large: that update is skipped.
  constexpr void close_step(bool finite, bool active) {
    ++steps;
    updates += finite ? 1 : 0;
    if (!active) {
      return;
    }
    if (!finite) {
      doublings -= doublings > -kFirstExponent ? 1 : 0;
      good_steps = 0;
    } else if (++good_steps == kStepsToGrow) {
      doublings += doublings < kLargestExponent - kFirstExponent ? 1 : 0;
      good_steps = 0;
    }
  }

  static constexpr int64_t kLargestExponent = 24;

 private:
  static constexpr int64_t kFirstExponent = 16;
  static constexpr int64_t kStepsToGrow = 2000;
};
// As a buffer: so many int64.
inline constexpr int64_t kClockWords = sizeof(StepClock) / sizeof(int64_t);

// 1 - beta^updates. By squaring, in products alone, so that host and card agree.
constexpr float bias_correction(double beta, int64_t updates) {
  double power = 1;
  for (double square = beta; updates > 0; updates /= 2, square *= square) {
    power *= updates % 2 == 1 ? square : 1.0;
  }
  return static_cast<float>(1.0 - power);
}

// A row of the history: what the host reads of a step when it is due.
struct StepRecord {
  double loss_sum = 0;
  double gradient_norm = 0;  // not finite: the update was skipped
  double learning_rate = 0;
};
// As a row of a buffer: so many fp64.
inline constexpr int64_t kRecordNumbers = sizeof(StepRecord) / sizeof(double);
// Steps whose results the history holds until the host reads them, and so the updates whose learning rates a
// step must be given.
inline constexpr int64_t kHistorySteps = 64;

// The scalars of adamw, in their order.
struct StepScalars {
  float learning_rate = 0;
  float bias_correction1 = 1;
  float bias_correction2 = 1;
  float inverse_loss_scale = 1;
};
// As a buffer: so many fp32.
inline constexpr int64_t kScalarNumbers = sizeof(StepScalars) / sizeof(float);

}  // namespace snug
