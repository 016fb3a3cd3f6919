// Training with bf16 optimizer states: the bytes it saves, what it learns, and results that wait.
#include <gtest/gtest.h>

#include "data/batches/synthetic.h"
#include "program/step_clock.h"
#include "recipe/choices.h"
#include "support/temporary_folder.h"
#include "support/train_fixture.h"
#include "train/adapter_files.h"

namespace snug {
namespace {

Recipe recipe_with(DType dtype, OptimizerStates states, bool lora = false) {
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.model.dtype = dtype;
  recipe.training.optimizer_states = states;
  recipe.training.learning_rate = 2e-3;
  recipe.training.lr_scheduler_type = Schedule::constant;
  if (lora) {
    recipe.lora = LoraSection{.r = 4};
  }
  return recipe;
}

// The sum over the buffers of a role that grow with the trained parameters.
int64_t bytes_of(const Plan& plan, Role role, bool trained) {
  int64_t bytes = 0;
  for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
    bool is_small = buffer.name.starts_with("step.") || buffer.name.starts_with("metrics.");
    bool counts = !trained || buffer.trainable || buffer.origin != Origin::file;
    bytes += buffer.role == role && !is_small && counts && buffer.constant.empty() ? buffer.max_bytes() : 0;
  }
  return bytes;
}

TEST(Bf16States, TheBytesOfAParameter) {
  struct Case {
    DType dtype;
    OptimizerStates states;
    int64_t weight_bytes;
    int64_t master_bytes;
    int64_t state_bytes;
  };
  const Case cases[] = {{DType::f32, OptimizerStates::fp32, 4, 0, 8},
                        {DType::f32, OptimizerStates::bf16, 4, 0, 4},
                        {DType::bf16, OptimizerStates::fp32, 2, 2, 8},
                        {DType::bf16, OptimizerStates::bf16, 2, 0, 4},
                        {DType::f16, OptimizerStates::fp32, 2, 4, 8},
                        {DType::f16, OptimizerStates::bf16, 2, 4, 4}};  // fp16 cannot go without its master
  for (const Case& one : cases) {
    for (bool lora : {false, true}) {
      Recipe recipe = recipe_with(one.dtype, one.states, lora);
      ModelSpec spec = locate_model(recipe.model.path).spec;
      std::vector<Program> programs = compile_training(recipe, spec, recipe_limits(recipe, spec));
      Plan plan;
      plan.phases.resize(1);
      plan.phases[0].program = programs[0];
      int64_t trained = 0;
      for (const Buffer& buffer : programs[0].buffers) {
        trained += buffer.trainable ? buffer.max_elements() : 0;
      }
      SCOPED_TRACE(std::string(name_of(one.dtype)) + " " + std::string(name_of(one.states)));
      EXPECT_EQ(bytes_of(plan, lora ? Role::adapters : Role::base_weights, true), trained * one.weight_bytes);
      EXPECT_EQ(bytes_of(plan, Role::master_bits, false), trained * one.master_bytes);
      EXPECT_EQ(bytes_of(plan, Role::optimizer_states, false), trained * one.state_bytes);
      EXPECT_EQ(bytes_of(plan, Role::gradients, false), trained * 4);
    }
  }
}

std::vector<double> losses(const Recipe& recipe, int64_t steps) {
  TrainFixture fixture(recipe);
  Batch batch = random_batch({4, 16, fixture.spec.vocabulary}, 5);
  std::vector<double> values;
  for (int64_t step = 0; step < steps; ++step) {
    values.push_back(fixture.runner.run_step({batch}, step, steps).loss);
  }
  return values;
}

TEST(Bf16States, LearnsWhatFp32StatesLearn) {
  for (bool lora : {false, true}) {
    std::vector<double> exact = losses(recipe_with(DType::f32, OptimizerStates::fp32, lora), 60);
    ASSERT_LT(exact.back(), exact.front() - 0.3);
    double learned = exact.front() - exact.back();
    for (DType dtype : {DType::f32, DType::bf16}) {
      std::vector<double> rounded = losses(recipe_with(dtype, OptimizerStates::bf16, lora), 60);
      EXPECT_NEAR(rounded.front() - rounded.back(), learned, 0.1 * learned) << name_of(dtype) << lora;
    }
  }
}

TEST(Bf16States, RecomputationAndRunningAgainChangeNoBit) {
  Recipe recipe = recipe_with(DType::bf16, OptimizerStates::bf16);
  std::vector<double> kept = losses(recipe, 6);
  EXPECT_EQ(losses(recipe, 6), kept);
  recipe.memory.recompute = {Recompute::full};
  EXPECT_EQ(losses(recipe, 6), kept);
  recipe.training.seed += 1;
  EXPECT_NE(losses(recipe, 6), kept);
}

TEST(Bf16States, AdaptersAreSavedAsTheyAre) {
  TemporaryFolder folder;
  Recipe recipe = recipe_with(DType::bf16, OptimizerStates::bf16, true);
  TrainFixture fixture(recipe);
  save_adapter(fixture.reader, recipe, fixture.spec, folder.path());
  TensorSource saved = open_tensors(folder.path() / "adapter_model.safetensors");
  ASSERT_FALSE(saved.names().empty());
  for (const std::string& name : saved.names()) {
    EXPECT_EQ(saved.find(name).dtype(), DType::bf16);
    EXPECT_EQ(values_of(saved.find(name)), fixture.tensor(Role::adapters, name));
  }
}

// Steps whose results are read later give the results that are read at once.
TEST(StepRunner, ResultsMayWait) {
  Recipe recipe = recipe_with(DType::f32, OptimizerStates::fp32);
  TrainFixture at_once(recipe);
  TrainFixture later(recipe);
  constexpr int64_t kSteps = kHistorySteps + 10;
  std::vector<StepResult> wanted;
  std::vector<StepResult> got;
  for (int64_t step = 0; step < kSteps; ++step) {
    Batch batch = random_batch({2, 5, later.spec.vocabulary}, static_cast<uint64_t>(step));
    wanted.push_back(at_once.runner.run_step({batch}, step, kSteps));
    later.runner.enqueue_step({batch}, step, kSteps);
    if (later.runner.history_full() || step == 20 || step + 1 == kSteps) {
      std::vector<StepResult> results = later.runner.take_results();
      got.insert(got.end(), results.begin(), results.end());
    }
  }
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].loss, wanted[i].loss) << i;
    EXPECT_EQ(got[i].gradient_norm, wanted[i].gradient_norm) << i;
  }
}

}  // namespace
}  // namespace snug
