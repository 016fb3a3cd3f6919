// Updates that are skipped: the schedule waits for them, and the rate that a step reports is the one it used.
#include <gtest/gtest.h>

#include <limits>

#include "compile/optimizer.h"
#include "data/batches/synthetic.h"
#include "support/reference_case.h"
#include "support/train_fixture.h"
#include "train/loss_watch.h"

namespace snug {
namespace {

constexpr double kPeak = 1e-2;
constexpr int64_t kWarmup = 4;

Recipe warming_up() {
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.training.learning_rate = kPeak;
  recipe.training.lr_scheduler_type = Schedule::constant_with_warmup;
  recipe.training.warmup_steps = kWarmup;
  recipe.data.max_length = 8;
  return recipe;
}

// Gradients are added to, so what is there before a step ruins it.
void spoil_gradients(TrainFixture& fixture) {
  const Program& update = fixture.plan.phase(kUpdatePhase).program;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Buffer& buffer : update.buffers) {
    if (buffer.role == Role::gradients) {
      fixture.executor.write_values<float>(kUpdatePhase, buffer.name, std::span(&nan, 1));
      return;
    }
  }
}

// The rate of update u is u / kWarmup of the peak, so it tells which update a step was.
double rate_of(int64_t update) {
  return kPeak * static_cast<double>(update) / kWarmup;
}

TEST(SkippedUpdates, DoNotAdvanceTheSchedule) {
  TrainFixture fixture(warming_up());
  int64_t updates = 0;
  for (int64_t step = 0; step < 6; ++step) {
    bool spoiled = step == 1 || step == 2;
    if (spoiled) {
      spoil_gradients(fixture);
    }
    Batch batch = random_batch({2, 5, fixture.spec.vocabulary}, static_cast<uint64_t>(step));
    StepResult result = fixture.runner.run_step({batch}, step, 6);
    EXPECT_EQ(result.was_skipped(), spoiled) << step;
    EXPECT_EQ(result.learning_rate, rate_of(updates)) << step;
    updates += spoiled ? 0 : 1;
  }
  EXPECT_EQ(updates, 4);
}

// The host does not know of the skipped one when it enqueues the steps after it.
TEST(SkippedUpdates, AreKnownWhereTheStepsAre) {
  TrainFixture fixture(warming_up());
  for (int64_t step = 0; step < 5; ++step) {
    if (step == 1) {
      spoil_gradients(fixture);
    }
    Batch batch = random_batch({2, 5, fixture.spec.vocabulary}, static_cast<uint64_t>(step));
    fixture.runner.enqueue_step({batch}, step, 5);
  }
  std::vector<StepResult> results = fixture.runner.take_results();
  std::vector<double> rates;
  for (const StepResult& result : results) {
    rates.push_back(result.learning_rate);
  }
  EXPECT_EQ(rates, (std::vector<double>{rate_of(0), rate_of(1), rate_of(1), rate_of(2), rate_of(3)}));
  EXPECT_TRUE(results[1].was_skipped());
}

StepMetrics step_with(int64_t step, double loss, double norm = 1) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = loss;
  metrics.gradient_norm = norm;
  return metrics;
}

TEST(LossWatch, StopsAfterTenSkippedUpdatesInARow) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  LossWatch watch(1000, false);
  int warnings = 0;
  for (int64_t step = 1; step <= 18; ++step) {
    warnings += watch.see(step_with(step, 2.0, step == 9 ? 1.0 : kNan)).empty() ? 0 : 1;
    EXPECT_EQ(watch.reason_to_stop(), "") << step;
  }
  EXPECT_EQ(warnings, 1);
  watch.see(step_with(19, 2.0, kNan));
  EXPECT_NE(watch.reason_to_stop().find("last 10 steps"), std::string::npos) << watch.reason_to_stop();
}

// From 2^24 down to 1 there are 24 halvings, each for a skipped update.
TEST(LossWatch, LetsFp16FindItsScale) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  LossWatch watch(1000, true);
  for (int64_t step = 1; step <= 24; ++step) {
    EXPECT_EQ(watch.see(step_with(step, 2.0, kInfinite)), "");
  }
  EXPECT_EQ(watch.reason_to_stop(), "");
  for (int64_t step = 25; step <= 34; ++step) {
    watch.see(step_with(step, 2.0, kInfinite));
  }
  EXPECT_NE(watch.reason_to_stop(), "");
}

TEST(LossWatch, WarnsOnceOfALossThatExplodes) {
  LossWatch healthy(32000, false);
  for (int64_t step = 1; step <= 100; ++step) {
    double noise = step % 7 == 0 ? 2.0 : 0.0;
    EXPECT_EQ(healthy.see(step_with(step, 10.0 / static_cast<double>(step) + 1 + noise)), "") << step;
  }
  LossWatch at_once(32000, false);
  std::string warning = at_once.see(step_with(1, 190621));
  EXPECT_NE(warning.find("190621"), std::string::npos) << warning;
  EXPECT_NE(warning.find("10.37"), std::string::npos) << warning;  // ln 32000
  EXPECT_EQ(at_once.see(step_with(2, 190621)), "");
  // Slowly, and never above the loss of guessing.
  LossWatch slowly(32000, false);
  std::string found;
  for (int64_t step = 1; step <= 60 && found.empty(); ++step) {
    found = slowly.see(step_with(step, step < 20 ? 1.0 : 7.0));
  }
  EXPECT_NE(found.find("has risen"), std::string::npos);
}

}  // namespace
}  // namespace snug
