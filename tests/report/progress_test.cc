// What is said of a run when it is over.
#include "report/progress.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

// Quiet, so that nothing of it is printed.
class Progress : public testing::Test {
 protected:
  void step(double loss, double seconds, int64_t tokens = 1000) {
    StepMetrics metrics;
    metrics.step = ++steps_;
    metrics.total_steps = 1'000'000;
    metrics.loss = loss;
    metrics.tokens = tokens;
    metrics.seconds = seconds;
    progress_.on_step(metrics);
    summary_.steps = steps_;
    summary_.updates = steps_;
    summary_.last_loss = loss;
  }
  std::string finished() const { return progress_.finished(summary_, "runs/one"); }

  static SpeedEstimate expected() {
    SpeedEstimate estimate;
    estimate.tokens = 1000;
    estimate.seconds = 0.2;
    estimate.ceiling_seconds = 0.125;
    return estimate;
  }

  TrainProgress progress_{10, true, expected()};
  TrainSummary summary_;
  int64_t steps_ = 0;
};

TEST_F(Progress, TheSpeedTowardsTheEndIsWithoutTheFirstSteps) {
  for (int i = 0; i < 12; ++i) {
    step(2, 1);  // 1,000 tok/s
  }
  for (int i = 0; i < 13; ++i) {
    step(2, i == 5 ? 3 : 0.25);  // 4,000 tok/s; one was held up
  }
  ASSERT_EQ(expected().ceiling_tokens_per_second(), 8000);
  std::string text = finished();
  EXPECT_NE(text.find("4,000 tok/s towards the end, 50% of the ceiling"), std::string::npos) << text;
}

// Of 60 steps and 60,000 tokens, 50 were made before by another process.
TEST_F(Progress, TheSpeedOfARunThatWentOnIsThatOfItsOwnSteps) {
  steps_ = 50;
  for (int i = 0; i < 10; ++i) {
    step(2, 0.5);
  }
  summary_.tokens = 60'000;
  summary_.seconds = 40;
  std::string text = finished();
  EXPECT_NE(text.find("60,000 tokens in 40s (2,000 tok/s while training)"), std::string::npos) << text;
}

TEST_F(Progress, ARunThatWasCompleteAlreadyHasNoSpeed) {
  summary_.steps = 60;
  summary_.updates = 60;
  summary_.tokens = 60'000;
  summary_.seconds = 40;
  summary_.first_loss = 5;
  summary_.last_loss = 2;
  std::string text = finished();
  EXPECT_EQ(text.find("tok/s"), std::string::npos) << text;
  EXPECT_NE(text.find("loss   5.0000 → 2.0000"), std::string::npos) << text;
}

TEST_F(Progress, WithoutAStepThereIsNoLossToTell) {
  summary_.interrupted = true;
  std::string text = finished();
  EXPECT_EQ(text.find("loss"), std::string::npos) << text;
  EXPECT_EQ(text.find("tok/s"), std::string::npos) << text;
  EXPECT_NE(text.find("nothing was learned yet"), std::string::npos) << text;
}

// The lowest loss is the last one, so that the lowest label of the axis is that of the curve's end.
TEST_F(Progress, TheCurveEndsAtTheLossThatTheRunEndedWith) {
  for (int i = 0; i < 2600; ++i) {
    step(3 + 0.5 * (i % 2), 0.1);
  }
  step(0.25, 0.1);  // no step that is logged
  std::string text = finished();
  EXPECT_NE(text.find("0.250 ┤"), std::string::npos) << text;
  EXPECT_NE(text.find("step 2601"), std::string::npos) << text;
}

}  // namespace
}  // namespace snug
