// Tiny models on the card: loss and every gradient against Hugging Face in fp32, against the CPU's fp32 in
// bf16 and fp16, LoRA along PEFT's curve, and the same bits when run again.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/training/card_fixture.h"
#include "data/batches/synthetic.h"
#include "recipe/choices.h"
#include "support/curve_case.h"
#include "support/dropout_case.h"
#include "support/qlora_case.h"
#include "support/train_fixture.h"
#include "train/adapter_files.h"
#include "train/generator.h"

namespace snug {
namespace {

std::string name_of_case(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

std::vector<std::string> full_cases() {
  std::vector<std::string> names;
  for (const std::string& name : reference_cases_with("gradients.safetensors")) {
    if (std::filesystem::exists(reference_folder(name) / "config.json")) {
      names.push_back(name);
    }
  }
  return names;
}

struct LossAndGradients {
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;
};

template <typename Fixture>
LossAndGradients run_reference(Fixture& fixture, const std::filesystem::path& folder) {
  Json batch = read_json(folder / "batch.json");
  LossAndGradients result;
  result.loss = fixture.runner.accumulate_gradients({whole_batch(batch["sequences"])}, 0);
  TensorSource expected = open_tensors(folder / "gradients.safetensors");
  for (const std::string& name : expected.names()) {
    std::vector<float>& gradient = result.gradients[name];
    gradient = fixture.gradient(Role::base_weights, name);
    for (float& value : gradient) {
      value /= fixture.runner.loss_scale();
    }
  }
  return result;
}

class CudaModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
};

TEST_P(CudaModel, LossAndEveryGradientOfHuggingFace) {
  std::filesystem::path folder = reference_folder(GetParam());
  CardFixture fixture(reference_recipe(folder));
  LossAndGradients result = run_reference(fixture, folder);
  double wanted = read_json(folder / "expected.json")["loss"].get<double>();
  EXPECT_NEAR(result.loss, wanted, 1e-5 * wanted);
  TensorSource expected = open_tensors(folder / "gradients.safetensors");
  for (const auto& [name, gradient] : result.gradients) {
    EXPECT_LE(relative_difference(gradient, values_of(expected.find(name))), 2e-5) << name;
  }
}

class CudaDropout : public CudaModel {};

TEST_P(CudaDropout, LossAndEveryGradientOfHuggingFaceInTraining) {
  DropoutCase c(GetParam());
  CardFixture fixture(c.recipe);
  NamedResults results = c.run(fixture, c.in_two());
  for (const auto& [name, wanted] : c.wanted) {
    EXPECT_LE(relative_difference(results.at(name), wanted), 2e-5) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(References, CudaDropout, testing::ValuesIn(reference_cases_with("dropout.json")),
                         name_of_case);

// Gradients of the whole model as one vector: single ones may be near zero and mostly rounding.
double overall_difference(const LossAndGradients& got, const LossAndGradients& wanted) {
  std::vector<float> all_got;
  std::vector<float> all_wanted;
  for (const auto& [name, gradient] : wanted.gradients) {
    all_wanted.insert(all_wanted.end(), gradient.begin(), gradient.end());
    const std::vector<float>& other = got.gradients.at(name);
    all_got.insert(all_got.end(), other.begin(), other.end());
  }
  return relative_difference(all_got, all_wanted);
}

// How far bf16 leads from fp32 depends on the model; the card may stray about as far as the CPU does.
TEST_P(CudaModel, NarrowDtypesStayNearFp32) {
  std::filesystem::path folder = reference_folder(GetParam());
  Recipe recipe = reference_recipe(folder);
  TrainFixture cpu(recipe);
  LossAndGradients wanted = run_reference(cpu, folder);
  recipe.model.dtype = DType::bf16;
  TrainFixture cpu_bf16(recipe);
  double usual = overall_difference(run_reference(cpu_bf16, folder), wanted);
  for (DType dtype : {DType::bf16, DType::f16}) {
    if (dtype == DType::f16 && cpu.spec.has_encoder()) {
      continue;  // T5 overflows in fp16
    }
    recipe.model.dtype = dtype;
    CardFixture fixture(recipe);
    LossAndGradients got = run_reference(fixture, folder);
    EXPECT_NEAR(got.loss, wanted.loss, 1e-2 * wanted.loss) << name_of(dtype);
    EXPECT_LE(overall_difference(got, wanted), dtype == DType::bf16 ? 1.5 * usual + 0.01 : 0.02)
        << name_of(dtype);
  }
}

TEST_P(CudaModel, RunAgainGivesTheSameBits) {
  std::filesystem::path folder = reference_folder(GetParam());
  Recipe recipe = reference_recipe(folder);
  recipe.model.dtype = DType::bf16;
  for (DType gradients : {DType::f32, DType::bf16}) {
    recipe.training.gradient_dtype = gradients;
    auto once = [&] {
      CardFixture fixture(recipe);
      return run_reference(fixture, folder);
    };
    LossAndGradients first = once();
    LossAndGradients second = once();
    EXPECT_EQ(first.loss, second.loss);
    EXPECT_EQ(first.gradients, second.gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(References, CudaModel, testing::ValuesIn(full_cases()), name_of_case);

class CudaCurve : public testing::TestWithParam<std::string> {};

// fp32 to its rounding; bf16 and fp16 about as near as they can be, with and without fp32 states.
TEST_P(CudaCurve, FiftyStepsOfHuggingFace) {
  SKIP_WITHOUT_CARD();
  struct Case {
    DType dtype;
    OptimizerStates states;
    double tolerance;
    DType gradients = DType::f32;
  };
  for (const Case& one :
       {Case{DType::f32, OptimizerStates::fp32, 1e-4}, Case{DType::bf16, OptimizerStates::fp32, 0.05},
        Case{DType::bf16, OptimizerStates::bf16, 0.05},
        Case{DType::bf16, OptimizerStates::fp32, 0.05, DType::bf16},
        Case{DType::bf16, OptimizerStates::bf16, 0.05, DType::bf16},
        Case{DType::bf16, OptimizerStates::eight_bits, 0.05},
        Case{DType::f16, OptimizerStates::eight_bits, 0.05}, Case{DType::f16, OptimizerStates::fp32, 0.01}}) {
    Recipe recipe = curve_recipe(GetParam());
    recipe.model.dtype = one.dtype;
    recipe.training.optimizer_states = one.states;
    recipe.training.gradient_dtype = one.gradients;
    if (one.dtype == DType::f16 && locate_model(recipe.model.path).spec.has_encoder()) {
      continue;  // T5 overflows in fp16
    }
    CardFixture fixture(recipe);
    double difference = largest_difference_from_curve(fixture.runner, GetParam());
    std::printf("%s, %s with %s states and %s gradients: largest difference %.1e\n", GetParam().c_str(),
                std::string(name_of(one.dtype)).c_str(), std::string(name_of(one.states)).c_str(),
                std::string(name_of(one.gradients)).c_str(), difference);
    EXPECT_LE(difference, one.tolerance) << name_of(one.dtype) << " " << name_of(one.states);
  }
}

INSTANTIATE_TEST_SUITE_P(References, CudaCurve, testing::ValuesIn(reference_cases_with("curve.json")),
                         name_of_case);

TEST(CudaTraining, FollowsTheCurveOfPeft) {
  SKIP_WITHOUT_CARD();
  std::filesystem::path folder = reference_folder("lora");
  Json reference = read_json(folder / "steps.json");
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.lora = read_adapter_config(folder / "initial_adapter");
  const Json& settings = reference["settings"];
  recipe.training.learning_rate = settings["learning_rate"].get<double>();
  recipe.training.weight_decay = settings["weight_decay"].get<double>();
  recipe.training.max_grad_norm = settings["max_grad_norm"].get<double>();
  recipe.training.warmup_steps = settings["warmup_steps"].get<int64_t>();
  recipe.training.lr_scheduler_type = Schedule::linear;
  for (bool graphs : {false, true}) {
    CardFixture fixture(recipe, folder / "initial_adapter", graphs);
    const Json& steps = reference["steps"];
    auto total = static_cast<int64_t>(steps.size());
    for (int64_t step = 0; step < total; ++step) {
      const Json& row = steps[static_cast<size_t>(step)];
      std::vector<Batch> micro_batches;
      for (const Json& indices : row["micro_batches"]) {
        micro_batches.push_back(
            batch_of_sequences(reference["sequences"], indices.get<std::vector<size_t>>()));
      }
      StepResult result = fixture.runner.run_step(micro_batches, step, total);
      EXPECT_NEAR(result.loss, row["loss"].get<double>(), 1e-4 * row["loss"].get<double>())
          << "step " << step;
      EXPECT_NEAR(result.gradient_norm, row["grad_norm"].get<double>(), 1e-3 * row["grad_norm"].get<double>())
          << "step " << step;
    }
    TensorSource final_adapter = open_tensors(folder / "final_adapter.safetensors");
    for (const std::string& name : final_adapter.names()) {
      EXPECT_LE(
          relative_difference(fixture.tensor(Role::adapters, name), values_of(final_adapter.find(name))),
          1e-3)
          << name;
    }
    EXPECT_EQ(fixture.executor.allocated_bytes(),
              fixture.plan.arena_bytes[0] + fixture.plan.arena_bytes[1] + fixture.plan.arena_bytes[2]);
  }
}

TEST(CudaQlora, TwentyStepsOfPeftAndBitsandbytes) {
  SKIP_WITHOUT_CARD();
  for (const std::string& name : kQloraCases) {
    for (DType dtype : {DType::f32, DType::bf16}) {
      QloraCase one(name);
      one.recipe.model.dtype = dtype;
      CardFixture fixture(one.recipe, one.adapter);
      double difference = largest_difference(losses_of_curve(fixture.runner, one.curve), one.curve);
      std::printf("%s, %s: largest difference %.1e\n", name.c_str(), std::string(name_of(dtype)).c_str(),
                  difference);
      EXPECT_LE(difference, dtype == DType::f32 ? 1e-4 : 0.05) << name << " " << name_of(dtype);
    }
  }
}

constexpr int kFp8Steps = 5;
constexpr int64_t kFp8Length = 32;

std::vector<float> losses_of_random_batches(auto& fixture) {
  std::vector<float> losses;
  for (int step = 0; step < kFp8Steps; ++step) {
    Batch batch = random_batch({2, kFp8Length, fixture.spec.vocabulary}, static_cast<uint64_t>(step % 2));
    losses.push_back(static_cast<float>(fixture.runner.run_step({batch}, step, kFp8Steps).loss));
  }
  return losses;
}

std::vector<float> gradients_of_random_batch(auto& fixture) {
  fixture.runner.accumulate_gradients({random_batch({2, kFp8Length, fixture.spec.vocabulary}, 0)}, 0);
  std::vector<float> all;
  for (const StoredTensor& stored : stored_tensors(fixture.plan, Role::adapters, true)) {
    std::vector<float> one = fixture.gradient(Role::adapters, stored.name);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// The card and the CPU make the same codes, but of numbers of bf16 that come out one off now and then and
// get another one. What that changes is of the kind of what fp8 itself changes, where all numbers are
// rounded, and less (seen: two fifths of it in the gradients, three fifths in the losses).
TEST(CudaFp8, TrainsLikeTheCpu) {
  SKIP_WITHOUT_CARD();
  Recipe recipe = reference_recipe(std::filesystem::path(SNUG_SOURCE_DIR) / "models/tiny-story");
  recipe.model.dtype = DType::bf16;
  recipe.data.max_length = kFp8Length;
  recipe.training.learning_rate = 2e-4;
  recipe.lora = LoraSection{.r = 8};
  TrainFixture whole(recipe);
  recipe.model.compute = Compute::fp8;
  std::unique_ptr<CardFixture> card;
  try {
    card = std::make_unique<CardFixture>(recipe);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("8.9 (Ada: RTX 40, L4, L40S) and newer do"), std::string::npos)
        << error.what();
    return;
  }
  TrainFixture cpu(recipe);
  auto expect_nearer = [](const char* what, const std::vector<float>& with_fp8,
                          const std::vector<float>& without, const std::vector<float>& on_card) {
    double of_fp8 = relative_difference(without, with_fp8);
    double of_card = relative_difference(on_card, with_fp8);
    std::printf("fp8 changes %s by %.1e, the card by %.1e\n", what, of_fp8, of_card);
    EXPECT_LT(of_card, of_fp8) << what;
  };
  expect_nearer("gradients", gradients_of_random_batch(cpu), gradients_of_random_batch(whole),
                gradients_of_random_batch(*card));
  expect_nearer("losses", losses_of_random_batches(cpu), losses_of_random_batches(whole),
                losses_of_random_batches(*card));
  EXPECT_EQ(card->executor.allocated_bytes(),
            card->plan.arena_bytes[0] + card->plan.arena_bytes[1] + card->plan.arena_bytes[2]);
}

}  // namespace
}  // namespace snug
