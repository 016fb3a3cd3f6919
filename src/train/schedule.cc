// The schedules' formulas.
#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace snug {
namespace {

double number_of(const TrainingSection& training, std::string_view name, double otherwise) {
  auto found = training.lr_scheduler_kwargs.find(name);
  return found == training.lr_scheduler_kwargs.end() ? otherwise : found->second;
}

// From 1 to 0 over half a period.
double half_cosine(double periods) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * periods));
}

double polynomial_factor(const TrainingSection& training, double progress) {
  double end = number_of(training, "lr_end", 1e-7) / training.learning_rate;
  if (progress > 1) {
    return end;
  }
  return (1.0 - end) * std::pow(1.0 - progress, number_of(training, "power", 1.0)) + end;
}

double lowest_factor(const TrainingSection& training) {
  return number_of(training, "min_lr_rate", number_of(training, "min_lr", 0.0) / training.learning_rate);
}

// The learning rate's factor after the warm-up. `progress`: from 0 at its end to 1 at the end of the run.
double decay_factor(const TrainingSection& training, int64_t update, int64_t warmup, double progress) {
  switch (training.lr_scheduler_type) {
    case Schedule::linear:
      return std::max(0.0, 1.0 - progress);
    case Schedule::cosine:
      return std::max(0.0, half_cosine(number_of(training, "num_cycles", 0.5) * 2.0 * progress));
    case Schedule::cosine_with_restarts: {
      double cycles = number_of(training, "num_cycles", 1.0) * progress;
      return progress >= 1.0 ? 0.0 : std::max(0.0, half_cosine(cycles - std::floor(cycles)));
    }
    case Schedule::cosine_with_min_lr: {
      double lowest = lowest_factor(training);
      double factor = half_cosine(number_of(training, "num_cycles", 0.5) * 2.0 * progress);
      return std::max(0.0, factor * (1.0 - lowest) + lowest);
    }
    case Schedule::polynomial:
      return polynomial_factor(training, progress);
    case Schedule::inverse_sqrt: {
      double timescale =
          number_of(training, "timescale", warmup > 0 ? static_cast<double>(warmup) : 10'000.0);
      return 1.0 / std::sqrt((static_cast<double>(update - warmup) + timescale) / timescale);
    }
    case Schedule::constant:
    case Schedule::constant_with_warmup:
      return 1.0;
  }
  return 1.0;
}

}  // namespace

int64_t warmup_steps(const TrainingSection& training, int64_t total_steps) {
  if (training.lr_scheduler_type == Schedule::constant) {
    return 0;
  }
  if (training.warmup_steps > 0) {
    return training.warmup_steps;
  }
  return static_cast<int64_t>(std::ceil(training.warmup_ratio * static_cast<double>(total_steps)));
}

double learning_rate(const TrainingSection& training, int64_t update, int64_t total_steps) {
  int64_t warmup = warmup_steps(training, total_steps);
  if (update < warmup) {
    return training.learning_rate * static_cast<double>(update) / static_cast<double>(warmup);
  }
  double progress =
      static_cast<double>(update - warmup) / static_cast<double>(std::max<int64_t>(total_steps - warmup, 1));
  return training.learning_rate * decay_factor(training, update, warmup, progress);
}

}  // namespace snug
