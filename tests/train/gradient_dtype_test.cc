// training.gradient_dtype: which gradients are bf16, that each micro-batch is rounded once, and what is
// learned.
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/batches/synthetic.h"
#include "support/curve_case.h"
#include "support/train_fixture.h"
#include "support/values.h"

namespace snug {
namespace {

Recipe recipe_with(DType gradients, const char* model = "gqa_untied") {
  Recipe recipe = reference_recipe(reference_folder(model));
  recipe.model.dtype = DType::bf16;
  recipe.training.gradient_dtype = gradients;
  return recipe;
}

TEST(GradientDtype, MatricesHaveTwoBytesAndVectorsFour) {
  for (const char* model : {"gqa_untied", "qwen2_tied", "llama_biases", "qwen3_head_norms", "t5_tied_head"}) {
    SCOPED_TRACE(model);
    Recipe recipe = recipe_with(DType::bf16, model);
    ModelSpec spec = locate_model(recipe.model.path).spec;
    std::vector<Program> programs = compile_training(recipe, spec, recipe_limits(recipe, spec));
    for (const char* phase : {kTrainPhase, kUpdatePhase, kLoadPhase}) {
      auto found =
          std::find_if(programs.begin(), programs.end(), [&](auto& one) { return one.name == phase; });
      int64_t matrices = 0;
      for (const Buffer& buffer : found->buffers) {
        // T5's biases of attention are few, and summed by the attention.
        bool is_rounded =
            buffer.dims.size() == 2 && buffer.name.find("relative_attention_bias") == std::string::npos;
        if (buffer.role == Role::gradients) {
          EXPECT_EQ(buffer.format, is_rounded ? DType::bf16 : DType::f32) << buffer.name;
          matrices += is_rounded ? 1 : 0;
        }
      }
      EXPECT_GT(matrices, 0) << phase;
    }
  }
}

std::map<std::string, std::vector<float>> gradients_of(const Recipe& recipe,
                                                       const std::vector<uint64_t>& seeds) {
  TrainFixture fixture(recipe);
  std::vector<Batch> batches;
  for (uint64_t seed : seeds) {
    batches.push_back(random_batch({4, 16, fixture.spec.vocabulary}, seed));
  }
  fixture.runner.accumulate_gradients(batches, 0);
  std::map<std::string, std::vector<float>> gradients;
  for (const StoredTensor& stored : stored_tensors(fixture.plan, Role::base_weights, true)) {
    gradients[stored.name] = fixture.gradient(Role::base_weights, stored.name);
  }
  return gradients;
}

// With one batch in its place, gradients are what fp32 ones are, rounded to nearest. A second one, of as many
// targets, is added to that and the sum rounded: both have half the weight then, which loses no bit.
TEST(GradientDtype, EachMicroBatchIsRoundedOnce) {
  auto exact_first = gradients_of(recipe_with(DType::f32), {1});
  auto exact_second = gradients_of(recipe_with(DType::f32), {2});
  auto first = gradients_of(recipe_with(DType::bf16), {1});
  auto both = gradients_of(recipe_with(DType::bf16), {1, 2});
  ASSERT_FALSE(first.empty());
  for (const auto& [name, values] : first) {
    bool is_vector = name.find("norm") != std::string::npos;
    EXPECT_EQ(values, is_vector ? exact_first[name] : rounded(exact_first[name], DType::bf16)) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      double sum = 0.5 * static_cast<double>(values[i]) + 0.5 * static_cast<double>(exact_second[name][i]);
      double unit = sum == 0 ? 0 : std::ldexp(1.0, std::ilogb(sum) - 7);
      double of_fp32 = 0x1p-16 * (std::abs(static_cast<double>(values[i])) + std::abs(sum)) + 1e-9;
      ASSERT_NEAR(static_cast<double>(both[name][i]), sum, 0.5 * unit + of_fp32) << name << " " << i;
    }
  }
}

// Fifty steps of Hugging Face: no further away than fp32 gradients are, but for rounding.
TEST(GradientDtype, LearnsWhatFp32GradientsLearn) {
  for (const std::string& name : reference_cases_with("curve.json")) {
    std::map<DType, double> away;
    for (DType gradients : {DType::f32, DType::bf16}) {
      Recipe recipe = curve_recipe(name);
      recipe.model.dtype = DType::bf16;
      recipe.training.gradient_dtype = gradients;
      TrainFixture fixture(recipe);
      away[gradients] = largest_difference_from_curve(fixture.runner, name);
    }
    RecordProperty(name, std::to_string(away[DType::f32]) + " " + std::to_string(away[DType::bf16]));
    EXPECT_LE(away[DType::bf16], 0.05) << name;
  }
}

TEST(GradientDtype, RecomputationAndRunningAgainChangeNoBit) {
  Recipe recipe = recipe_with(DType::bf16, "qwen2_tied");
  recipe.training.optimizer_states = OptimizerStates::bf16;
  auto once = [&] { return gradients_of(recipe, {1, 2, 3}); };
  auto kept = once();
  EXPECT_EQ(once(), kept);
  recipe.memory.recompute = {Recompute::full};
  EXPECT_EQ(once(), kept);
}

std::string refusal_of(const Recipe& recipe) {
  try {
    ModelSpec spec = locate_model(recipe.model.path).spec;
    compile_training(recipe, spec, recipe_limits(recipe, spec));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GradientDtype, IsRefusedWhereItMeansNothing) {
  Recipe recipe = recipe_with(DType::bf16);
  recipe.lora = LoraSection{.r = 4};
  EXPECT_EQ(
      refusal_of(recipe),
      "training.gradient_dtype is bf16, but with the section lora the weights themselves have no gradients, "
      "and those of adapters are small: write training.gradient_dtype: fp32, or leave out lora");
  recipe = recipe_with(DType::bf16);
  recipe.model.dtype = DType::f16;
  EXPECT_EQ(refusal_of(recipe),
            "training.gradient_dtype is bf16, but the model is trained in fp16, and a product is rounded to "
            "fp32 or "
            "to the dtype it multiplies: write model.dtype: bf16, or training.gradient_dtype: fp32");
}

}  // namespace
}  // namespace snug
