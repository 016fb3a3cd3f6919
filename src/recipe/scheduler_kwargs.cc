// Which schedule takes which numbers.
#include "recipe/scheduler_kwargs.h"

#include <fmt/format.h>

#include <algorithm>

#include "recipe/choices.h"

namespace snug {
namespace {

std::vector<std::string_view> kwargs_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::cosine:
    case Schedule::cosine_with_restarts:
      return {"num_cycles"};
    case Schedule::cosine_with_min_lr:
      return {"num_cycles", "min_lr", "min_lr_rate"};
    case Schedule::polynomial:
      return {"power", "lr_end"};
    case Schedule::inverse_sqrt:
      return {"timescale"};
    case Schedule::linear:
    case Schedule::constant:
    case Schedule::constant_with_warmup:
      return {};
  }
  return {};
}

// The lowest rate must be below the highest.
std::string find_floor_problem(const TrainingSection& training, std::string_view name) {
  auto floor = training.lr_scheduler_kwargs.find(name);
  if (floor == training.lr_scheduler_kwargs.end() || floor->second < training.learning_rate) {
    return "";
  }
  return fmt::format(
      "training.lr_scheduler_kwargs.{} is {}, not below training.learning_rate, which is {}: the schedule "
      "goes down from the learning rate to it",
      name, floor->second, training.learning_rate);
}

}  // namespace

std::string find_schedule_problem(const TrainingSection& training) {
  Schedule schedule = training.lr_scheduler_type;
  const auto& given = training.lr_scheduler_kwargs;
  std::vector<std::string_view> known = kwargs_of(schedule);
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return fmt::format("training.lr_scheduler_kwargs holds {}, but the schedule {} takes {}", name,
                         name_of(schedule),
                         known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
  }
  if (schedule == Schedule::constant && (training.warmup_steps > 0 || training.warmup_ratio > 0)) {
    return fmt::format(
        "training.lr_scheduler_type constant does not warm up, but training.{} is set: write "
        "constant_with_warmup, or leave the warm-up out",
        training.warmup_steps > 0 ? "warmup_steps" : "warmup_ratio");
  }
  if (schedule == Schedule::cosine_with_min_lr && given.contains("min_lr") == given.contains("min_lr_rate")) {
    return "training.lr_scheduler_type cosine_with_min_lr needs one number of "
           "training.lr_scheduler_kwargs: min_lr, or min_lr_rate, its share of the learning rate";
  }
  std::string problem = find_floor_problem(training, "min_lr");
  if (problem.empty()) {
    problem = find_floor_problem(training, "lr_end");
  }
  return problem.empty() && training.max_steps > 0 ? find_warmup_problem(training, training.max_steps)
                                                   : problem;
}

std::string find_warmup_problem(const TrainingSection& training, int64_t total_steps) {
  if (training.warmup_steps <= total_steps) {
    return "";
  }
  return fmt::format(
      "training.warmup_steps is {}, but the run has {} steps: the learning rate would never be reached. "
      "Write at "
      "most {}, or training.warmup_ratio, a share of the run",
      training.warmup_steps, total_steps, total_steps);
}

}  // namespace snug
