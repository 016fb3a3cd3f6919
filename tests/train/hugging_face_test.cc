// Loss, every gradient, 20 LoRA steps, 50 steps of full fine-tuning and greedy generation against Hugging
// Face and PEFT.
#include <gtest/gtest.h>

#include "support/curve_case.h"
#include "support/model_rounding.h"
#include "train/adapter_files.h"
#include "train/generator.h"

namespace snug {
namespace {

// A gradient by the name that a file has for it. Biases that are trained beside adapters are the model's own,
// under PEFT's names.
std::vector<float> gradient_named(TrainFixture& fixture, Role role, std::string name) {
  if (role != Role::adapters || !name.ends_with(".bias")) {
    return fixture.gradient(role, name);
  }
  for (const std::string part : {"base_model.model.", ".base_layer"}) {
    if (size_t at = name.find(part); at != std::string::npos) {
      name.erase(at, part.size());
    }
  }
  return fixture.gradient(Role::base_weights, name);
}

// Everything is fp32 here and float64 there. Differences are of whole tensors, relative to their norm.
void expect_near(const NamedResults& got, const NamedResults& wanted,
                 const std::map<std::string, double>& tolerances) {
  ASSERT_FALSE(wanted.empty());
  for (const auto& [name, values] : wanted) {
    ASSERT_EQ(got.at(name).size(), values.size()) << name;
    EXPECT_LE(relative_difference(got.at(name), values), tolerances.at(name)) << name;
  }
}

void expect_loss_and_gradients(const Recipe& recipe, const std::filesystem::path& adapter,
                               const std::filesystem::path& folder) {
  constexpr double kNoise = 0x1p-12;  // far above rounding, and small enough for a straight line
  TensorSource expected = open_tensors(folder / "gradients.safetensors");
  Role role = adapter.empty() ? Role::base_weights : Role::adapters;
  Batch batch = whole_batch(read_json(folder / "batch.json")["sequences"]);
  Shaken shaken(recipe, adapter, kNoise, [&](TrainFixture& fixture) {
    NamedResults results;
    results["loss"] = {static_cast<float>(fixture.runner.accumulate_gradients({batch}, 0))};
    for (const std::string& name : expected.names()) {
      results[name] = gradient_named(fixture, role, name);
    }
    return results;
  });
  NamedResults wanted = {{"loss", {read_json(folder / "expected.json")["loss"].get<float>()}}};
  for (const std::string& name : expected.names()) {
    wanted[name] = values_of(expected.find(name));
  }
  // The sum itself, and what became of the errors of all sums before it.
  double error = product_error(locate_model(recipe.model.path).spec, std::ssize(batch.ids));
  std::map<std::string, double> tolerances;
  for (const auto& [name, response] : shaken.response) {
    tolerances[name] = error * (1 + response / kNoise);
  }
  expect_near(shaken.results, wanted, tolerances);
}

// A training run's results. Each step adds rounding of its own to what the steps before it left, and Adam
// turns gradients near zero by their sign alone: no straight line, so the weights are shaken by as much as
// rounding does.
template <typename Run>
void expect_run(const Recipe& recipe, const std::filesystem::path& adapter, int64_t steps,
                const NamedResults& wanted, const Run& run) {
  double error = product_error(locate_model(recipe.model.path).spec,
                               recipe.training.per_device_train_batch_size.value() * recipe.data.max_length);
  Shaken shaken(recipe, adapter, error, run);
  std::map<std::string, double> tolerances;
  for (const auto& [name, response] : shaken.response) {
    tolerances[name] = error + std::sqrt(static_cast<double>(steps)) * response;
  }
  expect_near(shaken.results, wanted, tolerances);
}

class FullModel : public testing::TestWithParam<std::string> {};

TEST_P(FullModel, LossAndEveryGradient) {
  std::filesystem::path folder = reference_folder(GetParam());
  expect_loss_and_gradients(reference_recipe(folder), {}, folder);
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
  NoisyBackend backend;
  GenerationOptions sizes{.dtype = DType::f32,
                          .max_source_tokens = static_cast<int64_t>(prompt.source.size()),
                          .max_prompt_tokens = static_cast<int64_t>(prompt.tokens.size()),
                          .max_total_tokens = static_cast<int64_t>(prompt.tokens.size() + wanted.size())};
  Plan plan = make_plan(compile_generation(spec, sizes), backend, backend.device_total_bytes());
  Executor executor(plan, backend);
  load_constants(executor);
  load_tensors(executor, Role::base_weights, open_tensors(folder));
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
  expect_loss_and_gradients(lora_recipe(folder), folder / "initial_adapter", folder);
}

INSTANTIATE_TEST_SUITE_P(References, Adapter, testing::ValuesIn(reference_cases_with("initial_adapter")),
                         name_of_case);

class FullTraining : public testing::TestWithParam<std::string> {};

TEST_P(FullTraining, FollowsFiftySteps) {
  Json curve = read_curve(GetParam());
  NamedResults wanted;
  for (const Json& step : curve["steps"]) {
    wanted["losses"].push_back(step["loss"].get<float>());
  }
  ASSERT_EQ(wanted["losses"].size(), 50U);
  expect_run(curve_recipe(GetParam()), {}, 50, wanted, [&](TrainFixture& fixture) {
    return NamedResults{{"losses", losses_of_curve(fixture.runner, curve)}};
  });
}

INSTANTIATE_TEST_SUITE_P(References, FullTraining, testing::ValuesIn(reference_cases_with("curve.json")),
                         name_of_case);

// The same steps with Adafactor as Trainer makes it (tools/make_adafactor_references.py).
class AdafactorTraining : public testing::TestWithParam<std::string> {};

TEST_P(AdafactorTraining, FollowsFiftySteps) {
  Json curve = read_curve(GetParam());
  Json reference = read_json(reference_folder(GetParam()) / "adafactor.json");
  Recipe recipe = curve_recipe(GetParam());
  recipe.training.optim = Optimizer::adafactor;
  recipe.training.learning_rate = reference["learning_rate"].get<double>();
  TrainFixture fixture(recipe);
  ASSERT_EQ(reference["steps"].size(), 50U);
  EXPECT_LE(largest_difference(losses_of_curve(fixture.runner, curve), reference), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(References, AdafactorTraining,
                         testing::ValuesIn(reference_cases_with("adafactor.json")), name_of_case);

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
  const Json& steps = reference["steps"];
  auto total = static_cast<int64_t>(steps.size());
  ASSERT_EQ(total, 20);
  NamedResults wanted;
  for (const Json& step : steps) {
    wanted["losses"].push_back(step["loss"].get<float>());
    wanted["norms"].push_back(step["grad_norm"].get<float>());
  }
  TensorSource final_adapter = open_tensors(folder / "final_adapter.safetensors");
  for (const std::string& name : final_adapter.names()) {
    wanted[name] = values_of(final_adapter.find(name));
  }
  std::filesystem::path adapter = folder / "initial_adapter";
  expect_run(recipe, adapter, total, wanted, [&](TrainFixture& fixture) {
    NamedResults results;
    for (int64_t step = 0; step < total; ++step) {
      StepResult result = fixture.runner.run_step(
          micro_batches_of(reference["sequences"], steps[static_cast<size_t>(step)]), step, total);
      results["losses"].push_back(static_cast<float>(result.loss));
      results["norms"].push_back(static_cast<float>(result.gradient_norm));
    }
    for (const std::string& name : final_adapter.names()) {
      results[name] = fixture.tensor(Role::adapters, name);
    }
    return results;
  });
}

}  // namespace
}  // namespace snug
