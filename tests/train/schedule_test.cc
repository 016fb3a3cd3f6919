// Learning rates against transformers' formulas, by hand.
#include "train/schedule.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TrainingSection training(Schedule schedule, int64_t warmup) {
  TrainingSection section;
  section.learning_rate = 1.0;
  section.lr_scheduler_type = schedule;
  section.warmup_steps = warmup;
  return section;
}

TEST(Schedule, LinearWarmsUpAndFallsToZero) {
  TrainingSection section = training(Schedule::linear, 4);
  EXPECT_DOUBLE_EQ(learning_rate(section, 0, 20), 0.0);
  EXPECT_DOUBLE_EQ(learning_rate(section, 2, 20), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(section, 4, 20), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(section, 12, 20), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(section, 20, 20), 0.0);
}

TEST(Schedule, CosineIsHalfWayAtHalfTheSteps) {
  TrainingSection section = training(Schedule::cosine, 0);
  EXPECT_DOUBLE_EQ(learning_rate(section, 0, 10), 1.0);
  EXPECT_NEAR(learning_rate(section, 5, 10), 0.5, 1e-12);
  EXPECT_NEAR(learning_rate(section, 10, 10), 0.0, 1e-12);
}

TEST(Schedule, ConstantStays) {
  EXPECT_DOUBLE_EQ(learning_rate(training(Schedule::constant, 2), 1, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(training(Schedule::constant, 2), 9, 10), 1.0);
}

TEST(Schedule, WarmupRatioRoundsUpAndStepsWin) {
  TrainingSection section = training(Schedule::linear, 0);
  section.warmup_ratio = 0.03;
  EXPECT_EQ(warmup_steps(section, 101), 4);
  section.warmup_steps = 7;
  EXPECT_EQ(warmup_steps(section, 101), 7);
}

}  // namespace
}  // namespace snug
