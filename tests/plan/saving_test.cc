// What checkpoints take: counted from the parameters, and by what the host has.
#include "plan/saving.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_plan/planned_card.h"
#include "base/bytes.h"
#include "plan/training.h"
#include "program/step_clock.h"
#include "support/small_llama.h"

namespace snug {
namespace {

// A card in a machine with so much memory.
class CardInMachine : public PlannedCard {
 public:
  explicit CardInMachine(int64_t available) : available_(available) {}
  std::optional<int64_t> host_available_bytes() const override { return available_; }

 private:
  int64_t available_;
};

int64_t host_bytes(const Plan& plan) {
  return plan.arena_bytes[static_cast<size_t>(Home::host)];
}

struct Kept {
  const char* name;
  DType dtype;
  OptimizerStates states;
  bool lora;
  int64_t snapshot;    // bytes a trained parameter
  int64_t checkpoint;  // likewise; of adapters also the file for PEFT, with the widest values there are
};

TEST(Saving, IsSoManyBytesAParameter) {
  for (const Kept& kept : {Kept{"fp32", DType::f32, OptimizerStates::fp32, false, 12, 12},
                           Kept{"bf16", DType::bf16, OptimizerStates::fp32, false, 12, 12},
                           Kept{"bf16 states", DType::bf16, OptimizerStates::bf16, false, 6, 6},
                           Kept{"adapters", DType::bf16, OptimizerStates::fp32, true, 12, 16},
                           Kept{"adapters, bf16 states", DType::bf16, OptimizerStates::bf16, true, 6, 8}}) {
    Recipe recipe = small_recipe();
    recipe.model.dtype = kept.dtype;
    recipe.training.optimizer_states = kept.states;
    if (kept.lora) {
      recipe.lora = LoraSection{.r = 8};
    }
    Plan plan = plan_training(recipe, small_llama(), PlannedCard());
    int64_t parameters = plan.trainable_parameters;
    auto clock = static_cast<int64_t>(sizeof(StepClock));
    EXPECT_EQ(plan.saving->checkpoint_bytes, kept.checkpoint * parameters + clock) << kept.name;
    int64_t padding = std::ssize(snapshot_parts(plan)) * kAlignment;
    EXPECT_GE(plan.saving->snapshot_bytes, kept.snapshot * parameters) << kept.name;
    EXPECT_LE(plan.saving->snapshot_bytes, kept.snapshot * parameters + clock + padding) << kept.name;
    EXPECT_EQ(host_bytes(plan), plan.saving->snapshot_bytes);
  }
}

TEST(Saving, TrainingWaitsWhereTheHostIsShort) {
  Recipe recipe = small_recipe();
  Plan unknown = plan_training(recipe, small_llama(), PlannedCard());
  int64_t wanted = unknown.saving->snapshot_bytes;
  int64_t pinned = unknown.arena_bytes[static_cast<size_t>(Home::pinned)];
  EXPECT_FALSE(unknown.saving->training_waits());
  Plan enough = plan_training(recipe, small_llama(), CardInMachine(wanted + pinned));
  EXPECT_FALSE(enough.saving->training_waits());
  EXPECT_EQ(host_bytes(enough), wanted);
  Plan less = plan_training(recipe, small_llama(), CardInMachine(wanted + pinned - 1));
  EXPECT_TRUE(less.saving->training_waits());
  EXPECT_EQ(host_bytes(less), 0);
  for (const Plan* plan : {&enough, &less}) {  // no byte of the card depends on it
    EXPECT_EQ(plan->device_bytes(), unknown.device_bytes());
    EXPECT_EQ(plan->peak_bytes(), unknown.peak_bytes());
  }
}

// On the CPU the limit is for both.
TEST(Saving, TheCopyIsWithinTheLimitWhereHostAndDeviceAreOneMemory) {
  CpuBackend backend;
  Recipe recipe = small_recipe();
  Plan open = plan_training(recipe, small_llama(), backend);
  int64_t both = open.peak_bytes() + open.saving->snapshot_bytes;
  recipe.memory.limit_bytes = both;
  EXPECT_EQ(plan_training(recipe, small_llama(), backend).all_bytes(), both);
  recipe.memory.limit_bytes = both - 1;
  Plan short_of_one = plan_training(recipe, small_llama(), backend);
  EXPECT_TRUE(short_of_one.fits());
  EXPECT_TRUE(short_of_one.saving->training_waits());
  EXPECT_EQ(short_of_one.all_bytes(), open.peak_bytes());
}

TEST(Saving, CountsWhatIsOnTheDisk) {
  TrainingSection training;
  training.save_total_limit = 2;
  EXPECT_EQ(checkpoints_on_disk(training), 3);  // and the one that is being written
  training.load_best_model_at_end = true;
  EXPECT_EQ(checkpoints_on_disk(training), 4);
  Recipe recipe = small_recipe();
  recipe.training.save_strategy = SaveStrategy::no;
  Plan plan = plan_training(recipe, small_llama(), PlannedCard());
  EXPECT_EQ(plan.saving->checkpoints, 1);  // of a run that is stopped
  EXPECT_EQ(host_bytes(plan), 0);
}

// On the CPU a stage has its copy beside the arena of the largest stage: one that fits beside its own alone
// gives way, and no more is taken than the limit.
TEST(Saving, OfStagesKeepsTheLimitTogether) {
  CpuBackend backend;
  Recipe all_weights = small_recipe();
  all_weights.training.per_device_train_batch_size = 1;
  Recipe adapters = small_recipe();
  adapters.lora = LoraSection{.r = 1};
  adapters.training.per_device_train_batch_size = 64;
  auto plans_of = [&] {
    std::vector<Plan> plans;
    for (const Recipe& recipe : {all_weights, adapters}) {
      plans.push_back(plan_training(recipe, small_llama(), backend));
    }
    return plans;
  };
  std::vector<Plan> apart = plans_of();
  ASSERT_LT(apart[0].device_bytes(), apart[1].device_bytes());
  ASSERT_GT(host_bytes(apart[0]), host_bytes(apart[1]));
  int64_t limit = std::max(apart[0].all_bytes(), apart[1].all_bytes());
  ASSERT_GT(apart[1].device_bytes() + host_bytes(apart[0]), limit);
  for (Recipe* recipe : {&all_weights, &adapters}) {
    recipe->memory.limit_bytes = limit;
  }
  std::vector<Plan> plans = plans_of();
  ASSERT_GT(host_bytes(plans[0]), 0);
  share_arenas(plans, backend);
  EXPECT_TRUE(plans[0].saving->training_waits());
  EXPECT_EQ(host_bytes(plans[0]), 0);
  EXPECT_FALSE(plans[1].saving->training_waits());
  EXPECT_EQ(host_bytes(plans[1]), host_bytes(apart[1]));
  // With room for both, both stay.
  for (Recipe* recipe : {&all_weights, &adapters}) {
    recipe->memory.limit_bytes = apart[1].device_bytes() + host_bytes(apart[0]);
  }
  plans = plans_of();
  share_arenas(plans, backend);
  EXPECT_EQ(host_bytes(plans[0]), host_bytes(apart[0]));
}

}  // namespace
}  // namespace snug
