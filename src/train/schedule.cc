// The schedules' formulas.
#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace snug {

int64_t warmup_steps(const TrainingSection& training, int64_t total_steps) {
  if (training.warmup_steps > 0) {
    return training.warmup_steps;
  }
  return static_cast<int64_t>(std::ceil(training.warmup_ratio * static_cast<double>(total_steps)));
}

double learning_rate(const TrainingSection& training, int64_t step, int64_t total_steps) {
  int64_t warmup = warmup_steps(training, total_steps);
  if (step < warmup) {
    return training.learning_rate * static_cast<double>(step) /
           static_cast<double>(std::max<int64_t>(warmup, 1));
  }
  double progress =
      static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(total_steps - warmup, 1));
  switch (training.lr_scheduler_type) {
    case Schedule::linear:
      return training.learning_rate * std::max(0.0, 1.0 - progress);
    case Schedule::cosine:
      return training.learning_rate * std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    case Schedule::constant:
      return training.learning_rate;
  }
  return training.learning_rate;
}

}  // namespace snug
