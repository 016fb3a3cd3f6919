// Each remedy alone, against what its arithmetic says.
#include "fit/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cuda_plan/planned_card.h"
#include "recipe/parse.h"
#include "support/small_llama.h"

namespace snug {
namespace {

class TriedRemedies : public testing::Test {
 protected:
  TriedRemedies() {
    Recipe recipe = parse_recipe(
        "model: {path: deepseek-ai/deepseek-llm-7b-base, dtype: bf16}\nlora: {r: 8}\n"
        "data: {train_file: a.jsonl, max_length: 1024}\n"
        "training: {per_device_train_batch_size: 2, gradient_accumulation_steps: 8}\n"
        "memory: {limit: 22.3GiB}\n",
        "recipe.yml");
    found_ = try_remedies(recipe, deepseek_7b(), PlannedCard());
  }
  const TriedRemedy& row(const std::string& remedy) const {
    auto found = std::find_if(found_.tried.begin(), found_.tried.end(),
                              [&](const TriedRemedy& one) { return one.remedy == remedy; });
    EXPECT_NE(found, found_.tried.end()) << remedy;
    return *found;
  }

  WhatIf found_;
};

TEST_F(TriedRemedies, WhatSavesNothingSavesNothing) {
  for (const char* one : {"lora.lora_alpha=8", "training.save_total_limit=1", "PYTORCH_CUDA_ALLOC_CONF",
                          "torch.cuda.empty_cache()", "TOKENIZERS_PARALLELISM", "dataloader workers"}) {
    EXPECT_EQ(row(one).saved_bytes, 0) << one;
    EXPECT_NEAR(row(one).slower, 0, 1e-12) << one;
  }
}

// 18,739,200 parameters at r=8, with a bf16 weight, its rest, an fp32 gradient and two fp32 moments each;
// buffers are rounded up to 256 bytes.
TEST_F(TriedRemedies, RankAndStatesAreWhatTheParametersSay) {
  constexpr int64_t kParameters = 18'739'200;
  constexpr int64_t kBuffers = 30 * 14 * 5;
  EXPECT_NEAR(static_cast<double>(row("training.optimizer_states=bf16").saved_bytes), kParameters * (2 + 4),
              kBuffers * 256);
  EXPECT_EQ(row("training.optimizer_states=bf16").changes, Sameness::numerics);
  const TriedRemedy& rank = row("lora.r=4");
  EXPECT_GE(rank.saved_bytes, kParameters / 2 * (2 + 2 + 4 + 8) - kBuffers * 256);
  EXPECT_LT(rank.saved_bytes, int64_t{1} << 30) << "not 2-3 GB";
  EXPECT_EQ(rank.changes, Sameness::experiment);
}

// 30 layers of 4 × 4096² and 3 × 4096 × 11008 weights: from 16 bits to 4, and what scales take.
TEST_F(TriedRemedies, FourBitsAreAQuarter) {
  constexpr int64_t kLinear = 30 * (4 * int64_t{4096} * 4096 + 3 * int64_t{4096} * 11008);
  const TriedRemedy& four = row("model.quantization=nf4_double");
  double share = static_cast<double>(four.saved_bytes) / static_cast<double>(2 * kLinear);
  EXPECT_GT(share, 0.70) << "three quarters less a per cent or two of scales and a decoded matrix";
  EXPECT_LT(share, 0.75);
}

TEST_F(TriedRemedies, FreeOnesChangeNothing) {
  EXPECT_EQ(row("memory.recompute=full").changes, Sameness::bits);
  EXPECT_GT(row("memory.recompute=full").saved_bytes, row("memory.recompute=selective").saved_bytes);
  EXPECT_GT(row("memory.recompute=full").slower, row("memory.recompute=selective").slower);
  EXPECT_EQ(row("memory.micro_batch_tokens=1024").changes, Sameness::rounding);
  EXPECT_EQ(row("memory.micro_batch_tokens=1024").saved_bytes,
            row("training.per_device_train_batch_size=1").saved_bytes)
      << "half the batch saves what cutting the step saves for free";
}

}  // namespace
}  // namespace snug
