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

// A weight that is not a number makes no gradient that is; where the update is skipped, it can be put back.
class SpoiledWeight {
 public:
  SpoiledWeight(TrainFixture& fixture, bool is_spoiled) : fixture_(fixture), is_spoiled_(is_spoiled) {
    for (const Buffer& buffer : fixture.plan.phase(kTrainPhase).program.buffers) {
      name_ = buffer.trainable ? buffer.name : name_;
    }
    if (is_spoiled_) {
      fixture_.executor.read(kTrainPhase, name_, std::as_writable_bytes(std::span(&value_, 1)));
      write(std::numeric_limits<float>::quiet_NaN());
    }
  }
  ~SpoiledWeight() {
    if (is_spoiled_) {
      write(value_);
    }
  }
  SpoiledWeight(const SpoiledWeight&) = delete;
  SpoiledWeight& operator=(const SpoiledWeight&) = delete;

 private:
  void write(float value) {
    fixture_.executor.write_values<float>(kTrainPhase, name_, std::span<const float>(&value, 1));
  }

  TrainFixture& fixture_;
  bool is_spoiled_;
  std::string name_;
  float value_ = 0;
};

// The rate of update u is u / kWarmup of the peak, so it tells which update a step was.
double rate_of(int64_t update) {
  return kPeak * static_cast<double>(update) / kWarmup;
}

TEST(SkippedUpdates, DoNotAdvanceTheSchedule) {
  TrainFixture fixture(warming_up());
  int64_t updates = 0;
  for (int64_t step = 0; step < 6; ++step) {
    bool spoiled = step == 1 || step == 2;
    SpoiledWeight weight(fixture, spoiled);
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
    SpoiledWeight weight(fixture, step == 1);
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
