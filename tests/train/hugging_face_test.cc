// Loss, every gradient, 20 LoRA steps, 50 steps of full fine-tuning and greedy generation against Hugging
// Face and PEFT.
#include <gtest/gtest.h>

#include "support/curve_case.h"
#include "support/train_fixture.h"
#include "train/generator.h"
#include "train/output.h"

namespace snug {
namespace {

constexpr double kTolerance = 1e-5;

void expect_gradients(TrainFixture& fixture, Role role, const std::filesystem::path& folder) {
  SafetensorsSet expected = SafetensorsSet::open(folder / "gradients.safetensors");
  ASSERT_FALSE(expected.names().empty());
  for (const std::string& name : expected.names()) {
    std::vector<float> wanted = values_of(expected.find(name));
    std::vector<float> got = fixture.gradient(role, name);
    ASSERT_EQ(got.size(), wanted.size()) << name;
    EXPECT_LE(relative_difference(got, wanted), kTolerance) << name;
  }
}

void expect_loss_and_gradients(TrainFixture& fixture, Role role, const std::filesystem::path& folder) {
  Json batch = read_json(folder / "batch.json");
  double wanted = read_json(folder / "expected.json")["loss"].get<double>();
  double loss = fixture.runner.accumulate_gradients({whole_batch(batch["sequences"])}, 0);
  EXPECT_NEAR(loss, wanted, kTolerance * wanted);
  expect_gradients(fixture, role, folder);
}

class FullModel : public testing::TestWithParam<std::string> {};

TEST_P(FullModel, LossAndEveryGradient) {
  std::filesystem::path folder = reference_folder(GetParam());
  TrainFixture fixture(reference_recipe(folder));
  expect_loss_and_gradients(fixture, Role::base_weights, folder);
}

TEST_P(FullModel, GreedyGeneration) {
  std::filesystem::path folder = reference_folder(GetParam());
  Json reference = read_json(folder / "generation.json");
  Prompt prompt{reference["prompt"].get<std::vector<int32_t>>()};
  if (reference.contains("source")) {
    prompt.source = reference["source"].get<std::vector<int32_t>>();
  }
  auto wanted = reference["generated"].get<std::vector<int32_t>>();
  ModelSpec spec = locate_model(folder.string()).spec;
  CpuBackend backend(true);
  GenerationOptions sizes{.dtype = DType::f32,
                          .max_source_tokens = static_cast<int64_t>(prompt.source.size()),
                          .max_prompt_tokens = static_cast<int64_t>(prompt.tokens.size()),
                          .max_total_tokens = static_cast<int64_t>(prompt.tokens.size() + wanted.size())};
  Plan plan = make_plan(compile_generation(spec, sizes), backend, backend.device_total_bytes());
  Executor executor(plan, backend);
  load_constants(executor);
  load_tensors(executor, Role::base_weights, SafetensorsSet::open(folder));
  SamplingOptions options;
  options.max_new_tokens = static_cast<int64_t>(wanted.size());
  EXPECT_EQ(generate(executor, prompt, options), wanted);
}

std::string name_of_case(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(References, FullModel, testing::ValuesIn(reference_cases_with("config.json")),
                         name_of_case);

Recipe lora_recipe(const std::filesystem::path& folder) {
  Json adapter = read_json(folder / "initial_adapter/adapter_config.json");
  Recipe recipe = reference_recipe(folder / adapter["base_model_name_or_path"].get<std::string>());
  recipe.lora = read_adapter_config(folder / "initial_adapter");
  return recipe;
}

class Adapter : public testing::TestWithParam<std::string> {};

TEST_P(Adapter, LossAndEveryGradient) {
  std::filesystem::path folder = reference_folder(GetParam());
  TrainFixture fixture(lora_recipe(folder), folder / "initial_adapter/adapter_model.safetensors");
  expect_loss_and_gradients(fixture, Role::adapters, folder);
}

INSTANTIATE_TEST_SUITE_P(References, Adapter, testing::ValuesIn(reference_cases_with("initial_adapter")),
                         name_of_case);

class FullTraining : public testing::TestWithParam<std::string> {};

TEST_P(FullTraining, FollowsFiftySteps) {
  TrainFixture fixture(curve_recipe(GetParam()));
  EXPECT_LE(largest_difference_from_curve(fixture.runner, GetParam()), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(References, FullTraining, testing::ValuesIn(reference_cases_with("curve.json")),
                         name_of_case);

TEST(LoraTraining, FollowsTheCurveOfPeft) {
  std::filesystem::path folder = reference_folder("lora");
  Json reference = read_json(folder / "steps.json");
  Recipe recipe = lora_recipe(folder);
  const Json& settings = reference["settings"];
  recipe.training.learning_rate = settings["learning_rate"].get<double>();
  recipe.training.weight_decay = settings["weight_decay"].get<double>();
  recipe.training.max_grad_norm = settings["max_grad_norm"].get<double>();
  recipe.training.warmup_steps = settings["warmup_steps"].get<int64_t>();
  recipe.training.lr_scheduler_type = Schedule::linear;
  TrainFixture fixture(recipe, folder / "initial_adapter/adapter_model.safetensors");

  const Json& steps = reference["steps"];
  auto total = static_cast<int64_t>(steps.size());
  ASSERT_EQ(total, 20);
  for (int64_t step = 0; step < total; ++step) {
    const Json& row = steps[static_cast<size_t>(step)];
    std::vector<Batch> micro_batches;
    for (const Json& indices : row["micro_batches"]) {
      micro_batches.push_back(batch_of_sequences(reference["sequences"], indices.get<std::vector<size_t>>()));
    }
    StepResult result = fixture.runner.run_step(micro_batches, step, total);
    EXPECT_NEAR(result.loss, row["loss"].get<double>(), 1e-4 * row["loss"].get<double>()) << "step " << step;
    EXPECT_NEAR(result.gradient_norm, row["grad_norm"].get<double>(), 1e-3 * row["grad_norm"].get<double>())
        << "step " << step;
  }
  SafetensorsSet final_adapter = SafetensorsSet::open(folder / "final_adapter.safetensors");
  for (const std::string& name : final_adapter.names()) {
    EXPECT_LE(relative_difference(fixture.tensor(Role::adapters, name), values_of(final_adapter.find(name))),
              1e-3)
        << name;
  }
}

}  // namespace
}  // namespace snug
