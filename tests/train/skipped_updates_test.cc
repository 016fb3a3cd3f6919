// Updates that are skipped: the schedule waits for them, and the rate that a step reports is the one it used.
#include <gtest/gtest.h>

#include <limits>

#include "compile/optimizer.h"
#include "data/batches/synthetic.h"
#include "support/reference_case.h"
#include "support/train_fixture.h"

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

}  // namespace
}  // namespace snug
