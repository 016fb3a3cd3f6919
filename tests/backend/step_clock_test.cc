// The clock of the steps: the scale of the loss falls when gradients overflow and rises after many steps
// without; the ops that keep it; and the results that wait for the host.
#include "program/step_clock.h"

#include <cmath>
#include <limits>

#include "support/run_ops.h"
#include "support/step_program.h"

namespace snug {
namespace {

TEST(StepClock, ScaleIsOneWhereItIsNotNeeded) {
  StepClock clock;
  clock.close_step(false, false);
  EXPECT_EQ(clock.loss_scale(false), 1.0F);
  EXPECT_EQ(clock.updates, 0);
  EXPECT_EQ(clock.steps, 1);
}

TEST(StepClock, HalvesOnOverflowAndNeverFallsBelowOne) {
  StepClock clock;
  EXPECT_EQ(clock.loss_scale(true), 65536.0F);
  clock.close_step(false, true);
  EXPECT_EQ(clock.loss_scale(true), 32768.0F);
  for (int i = 0; i < 100; ++i) {
    clock.close_step(false, true);
  }
  EXPECT_EQ(clock.loss_scale(true), 1.0F);
}

TEST(StepClock, DoublesAfterTwoThousandGoodStepsInARowUpToALimit) {
  StepClock clock;
  auto close = [&](int count, bool finite) {
    for (int i = 0; i < count; ++i) {
      clock.close_step(finite, true);
    }
  };
  close(1999, true);
  EXPECT_EQ(clock.loss_scale(true), 65536.0F);
  close(1, true);
  EXPECT_EQ(clock.loss_scale(true), 131072.0F);
  close(1999, true);
  close(1, false);  // the count starts again
  close(1999, true);
  EXPECT_EQ(clock.loss_scale(true), 65536.0F);
  EXPECT_EQ(clock.updates, 3 * 1999 + 1);
  close(40000, true);
  EXPECT_EQ(clock.loss_scale(true), 16777216.0F);
}

TEST(StepClock, BiasCorrectionsAreThoseOfTheFormula) {
  for (double beta : {0.9, 0.95, 0.999, 0.0}) {
    for (int64_t updates : {1, 2, 3, 10, 999, 1000, 123456, 1'000'000'000}) {
      double wanted = 1.0 - std::pow(beta, static_cast<double>(updates));
      EXPECT_FLOAT_EQ(bias_correction(beta, updates), static_cast<float>(wanted)) << beta << " " << updates;
    }
  }
}

// Two rows: update u has the rate at u % 2.
TEST(StepOps, SkippedStepsHalveTheScaleAndAdvanceNeitherUpdatesNorTheSchedule) {
  OpRunner runner(step_program(2, {.beta1 = 0.5, .beta2 = 0.75, .scales_loss = true}));
  runner.set_ints("clock", {0, 0, 0, 0});
  runner.set_doubles("rates", {0.25, 0.125});
  runner.set("share", {0.125F});
  auto close = [&](float norm, double loss_sum) {
    runner.set("norm", {norm});
    runner.set_double("loss_sum", loss_sum);
    runner.run();
    EXPECT_EQ(runner.get_double("loss_sum"), 0.0);
  };
  close(3.0F, 10.0);
  EXPECT_EQ(runner.get("scale"), std::vector<float>({8192.0F}));
  EXPECT_EQ(runner.get("scalars"), std::vector<float>({0.25F, 0.5F, 0.25F, 0x1p-16F}));
  close(std::numeric_limits<float>::infinity(), 20.0);
  EXPECT_EQ(runner.get_ints("clock"), std::vector<int64_t>({-1, 0, 1, 2}));
  EXPECT_EQ(runner.get("scalars")[0], 0.125F);  // of the second update, which is not made yet
  close(5.0F, 30.0);
  EXPECT_EQ(runner.get("scale"), std::vector<float>({4096.0F}));
  // The second update, though the third step.
  EXPECT_EQ(runner.get("scalars"), std::vector<float>({0.125F, 0.75F, 1 - 0.5625F, 0x1p-15F}));
  // The third step has taken the place of the first.
  std::vector<float> history = runner.get("history");
  EXPECT_EQ(std::vector<float>(history.begin(), history.begin() + 3),
            std::vector<float>({30.0F, 5.0F * 0x1p-15F, 0.125F}));
  EXPECT_EQ(history[3], 20.0F);
  EXPECT_TRUE(std::isinf(history[4]));
  EXPECT_EQ(history[5], 0.125F);
  close(1.0F, 40.0);
  EXPECT_EQ(runner.get("scalars")[0], 0.25F);  // the third update: its place is the first one's
}

}  // namespace
}  // namespace snug
