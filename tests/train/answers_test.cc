// Answers that a run generates between its steps, against Hugging Face's greedy generation.
#include "train/answers.h"

#include <gtest/gtest.h>

#include "support/train_fixture.h"
#include "train/generator.h"

namespace snug {
namespace {

class RunAnswers : public testing::TestWithParam<std::string> {};

// By the plan of a run, whose other phases use the same memory in between.
TEST_P(RunAnswers, AreThoseOfTransformers) {
  std::filesystem::path folder = reference_folder(GetParam());
  std::filesystem::path adapter;
  std::filesystem::path model = folder;
  std::optional<LoraSection> lora;
  if (std::filesystem::exists(folder / "initial_adapter")) {
    adapter = folder / "initial_adapter";
    Json config = read_json(adapter / "adapter_config.json");
    model = folder / config["base_model_name_or_path"].get<std::string>();
    lora = read_adapter_config(adapter);
  }
  Json reference = read_json(folder / "generation.json");
  auto wanted = reference["generated"].get<std::vector<int32_t>>();
  Recipe recipe = reference_recipe(model);
  recipe.lora = lora;
  recipe.training.eval_max_new_tokens = static_cast<int64_t>(wanted.size());
  TrainFixture fixture(recipe, adapter);
  Prompt prompt{reference["prompt"].get<std::vector<int32_t>>()};
  bool has_source = reference.contains("source");
  if (has_source) {
    prompt.source = reference["source"].get<std::vector<int32_t>>();
  }
  Dataset dataset = make_dataset(
      {has_source ? make_pair_example({1, 2, 3}, {4, 5, 6, 7}) : make_example({1, 2, 3, 4, 5, 6, 7}, 0)});
  SamplingOptions options;
  options.max_new_tokens = recipe.training.eval_max_new_tokens;
  for (int round = 0; round < 2; ++round) {
    fixture.runner.evaluate(dataset, planned_batch(fixture.plan, kEvaluatePhase));
    EXPECT_EQ(generate(fixture.executor, prompt, options), wanted);
  }
  EXPECT_EQ(fixture.executor.allocated_bytes(), fixture.plan.all_bytes());
}

INSTANTIATE_TEST_SUITE_P(References, RunAnswers, testing::ValuesIn(reference_cases_with("generation.json")),
                         [](const testing::TestParamInfo<std::string>& given) { return given.param; });

}  // namespace
}  // namespace snug
