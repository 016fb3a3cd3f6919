// Learning rates beside transformers' own (tools/make_schedule_references.py), and which updates they go to.
#include "train/schedule.h"

#include <gtest/gtest.h>

#include "io/json.h"
#include "recipe/choices.h"
#include "recipe/scheduler_kwargs.h"
#include "support/run_snug.h"

namespace snug {
namespace {

Schedule schedule_named(const std::string& name) {
  for (const auto& [known, schedule] : kSchedules) {
    if (known == name) {
      return schedule;
    }
  }
  ADD_FAILURE() << name;
  return Schedule::linear;
}

TEST(Schedule, RatesAreTransformers) {
  Json references = read_json(source_path("tests/goldens/schedules.json"));
  std::set<Schedule> seen;
  for (const Json& one : references["cases"]) {
    TrainingSection training;
    training.learning_rate = references["learning_rate"];
    training.lr_scheduler_type = schedule_named(one["lr_scheduler_type"]);
    training.warmup_steps = one["warmup_steps"];
    training.lr_scheduler_kwargs = one["lr_scheduler_kwargs"].get<NumberMap>();
    seen.insert(training.lr_scheduler_type);
    auto total = one["total_steps"].get<int64_t>();
    for (int64_t update = 0; update < total; ++update) {
      auto wanted = one["learning_rates"][static_cast<size_t>(update)].get<double>();
      // A few roundings of numbers of at most the learning rate.
      EXPECT_NEAR(learning_rate(training, update, total), wanted, 8 * 0x1p-52 * training.learning_rate)
          << one["lr_scheduler_type"] << " " << one["lr_scheduler_kwargs"] << " update " << update;
    }
  }
  EXPECT_EQ(seen.size(), kSchedules.size());
}

TEST(Schedule, WarmupRatioRoundsUpAndStepsWin) {
  TrainingSection training;
  training.warmup_ratio = 0.03;
  EXPECT_EQ(warmup_steps(training, 101), 4);
  training.warmup_steps = 7;
  EXPECT_EQ(warmup_steps(training, 101), 7);
}

}  // namespace
}  // namespace snug
