// What the driver counted under transformers 5.17, PEFT and, where named, Liger and bitsandbytes on an H200,
// random weights at the published shapes, dropout 0. A, B and E gave the constants, but for the
// holes that quantising leaves (D).
#include "explain/python_stack.h"

#include <gtest/gtest.h>

#include "backend/cuda_plan/planned_card.h"
#include "model/locate.h"
#include "plan/training.h"

namespace snug {
namespace {

struct Measured {
  const char* name;
  const char* model;
  int64_t sequences;
  int64_t length;
  int64_t rank;  // 0: all weights
  bool coded;
  PythonStack stack;
  double gib;
};

constexpr const char* kQwen7B = "Qwen/Qwen2.5-7B-Instruct";
constexpr const char* kQwen3B = "Qwen/Qwen2.5-3B-Instruct";
constexpr const char* kMistral = "mistralai/Mistral-7B-Instruct-v0.3";
constexpr const char* kDeepSeek = "deepseek-ai/deepseek-llm-7b-base";
constexpr const char* kT5 = "google/flan-t5-xl";
constexpr PythonStack kKeep{};
constexpr PythonStack kKeepLiger{.liger = true};
constexpr PythonStack kAgain{.checkpointing = true};
constexpr PythonStack kAgainLiger{.checkpointing = true, .liger = true};

class PythonStackMemory : public testing::TestWithParam<Measured> {};

TEST_P(PythonStackMemory, IsWithinSevenPercentOfTheDriver) {
  const Measured& run = GetParam();
  Recipe recipe;
  recipe.model.path = run.model;
  recipe.model.dtype = DType::bf16;
  recipe.model.dropout = 0;
  recipe.data.max_length = run.length;
  recipe.training.per_device_train_batch_size = run.sequences;
  if (run.rank > 0) {
    recipe.lora = LoraSection{};
    recipe.lora->r = run.rank;
  } else {
    recipe.data.max_target_length = run.length / 2;
  }
  recipe.model.quantization = run.coded ? Quantization::nf4_double : Quantization::none;
  ModelSpec spec = locate_model(run.model).spec;
  Plan plan = plan_training(recipe, spec, PlannedCard());
  auto peak = static_cast<double>(python_stack_use(recipe, spec, plan, run.stack).peak());
  double estimated = peak / (1024.0 * 1024 * 1024);
  EXPECT_NEAR(estimated / run.gib, 1, 0.07) << estimated << " GiB, measured " << run.gib;
}

std::string name_of_run(const testing::TestParamInfo<Measured>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Runs, PythonStackMemory,
                         testing::Values(Measured{"A", kQwen7B, 4, 2048, 128, false, kKeep, 90.8},
                                         Measured{"ALiger", kQwen7B, 4, 2048, 128, false, kKeepLiger, 61.8},
                                         Measured{"B", kQwen7B, 4, 2048, 128, false, kAgain, 37.5},
                                         Measured{"BLiger", kQwen7B, 4, 2048, 128, false, kAgainLiger, 23.5},
                                         Measured{"C", kQwen7B, 1, 512, 128, false, kAgain, 21.3},
                                         Measured{"CLiger", kQwen7B, 1, 512, 128, false, kAgainLiger, 20.6},
                                         Measured{"C2Liger", kQwen7B, 1, 2048, 128, false, kAgainLiger, 21.2},
                                         Measured{"D", kMistral, 4, 1536, 16, true, kAgain, 10.8},
                                         Measured{"DLiger", kMistral, 4, 1536, 16, true, kAgainLiger, 8.7},
                                         Measured{"D2Liger", kMistral, 4, 1536, 16, true, kKeepLiger, 32.1},
                                         Measured{"D3", kMistral, 8, 2048, 32, true, kKeep, 105.9},
                                         Measured{"E", kT5, 8, 512, 0, false, kAgain, 25.3},
                                         Measured{"E2", kT5, 8, 512, 0, false, kKeep, 48.6},
                                         Measured{"F", kQwen3B, 2, 2048, 128, false, kAgainLiger, 11.5},
                                         Measured{"G", kDeepSeek, 1, 1024, 128, false, kAgainLiger, 19.0}),
                         name_of_run);

TEST(PythonStack, LoadedInFp32TakesTheWeightsTwice) {
  Recipe recipe;
  recipe.model.path = kDeepSeek;
  recipe.model.dtype = DType::bf16;
  recipe.lora = LoraSection{};
  ModelSpec spec = locate_model(kDeepSeek).spec;
  Plan plan = plan_training(recipe, spec, PlannedCard());
  PythonStackUse narrow = python_stack_use(recipe, spec, plan, kAgain);
  PythonStackUse wide = python_stack_use(recipe, spec, plan, {.checkpointing = true, .fp32_weights = true});
  EXPECT_EQ(wide.weights, 2 * narrow.weights);
  EXPECT_EQ(narrow.weights, 2 * plan.parameters);
}

}  // namespace
}  // namespace snug
