// A small model's loss and gradients, with and without joined ops: to the bit.
#include <gtest/gtest.h>

#include <map>

#include "compile/adapters.h"
#include "compile/backward.h"
#include "compile/fuse.h"
#include "compile/recompute.h"
#include "compile/sum_order.h"
#include "ops/table.h"
#include "program/names.h"
#include "support/run_ops.h"
#include "support/small_llama.h"
#include "support/values.h"

namespace snug {
namespace {

constexpr int64_t kTokens = 10;

Program small_forward(DType dtype) {
  return build_forward(small_qwen3(),
                       {.goal = Goal::loss, .dtype = dtype, .max_tokens = kTokens, .max_sequences = 2});
}

Program small_backward(DType dtype) {
  Program forward = small_forward(dtype);
  for (Buffer& buffer : forward.buffers) {
    buffer.trainable = is_model_parameter(buffer);
  }
  return add_backward(std::move(forward));
}

// Everything that outlives the program, after it has run on the same weights and batch.
std::map<std::string, std::vector<std::byte>> results_of(const Program& program) {
  verify_with_shapes(program);
  OpRunner runner(program);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.origin == Origin::file || buffer.role == Role::adapters) {
      runner.set(buffer.name, random_values(buffer.max_elements(), buffer.name.size(), 0.3F));
    } else if (!buffer.constant.empty()) {
      runner.set(buffer.name, buffer.constant);
    } else if (buffer.role == Role::gradients) {
      runner.set(buffer.name, std::vector<float>(static_cast<size_t>(buffer.max_elements()), 0.0F));
    }
  }
  runner.set_ints(kIds, random_ids(kTokens, 1, small_qwen3().vocabulary));
  runner.set_ints(kTargets, random_ids(kTokens, 2, small_qwen3().vocabulary));
  runner.set_ints(kTargetRows, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  runner.set_ints(kPositions, {0, 1, 2, 3, 0, 1, 2, 3, 4, 5});
  runner.set_ints(kOffsets, {0, 4, kTokens});
  runner.set(kScale, {0.1F});
  runner.set_double(kLossSum, 0);
  runner.run();
  std::map<std::string, std::vector<std::byte>> results;
  for (const Buffer& buffer : program.buffers) {
    if (outlives_execution(buffer)) {
      results[buffer.name] = runner.bytes(buffer.name);
    }
  }
  EXPECT_GT(runner.get_double(kLossSum), 0);
  return results;
}

TEST(Fuse, NormsOfHeadsWithTheirRotationsChangeNoBit) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (const std::vector<Recompute>& policies :
         {std::vector<Recompute>{}, std::vector<Recompute>{Recompute::full}}) {
      Program apart = apply_recompute(small_backward(dtype), policies);
      Program joined = apply_recompute(fuse_head_norms(small_backward(dtype)), policies);
      EXPECT_LT(joined.ops.size(), apart.ops.size());
      EXPECT_EQ(results_of(joined), results_of(apart));
    }
  }
}

// Whatever is kept and whatever is made again.
TEST(Fuse, ProductsWithTheirGatesChangeNoBit) {
  LoraSection lora;
  lora.r = 4;
  lora.target_modules = {"all-linear"};
  for (const Program& backward :
       {small_backward(DType::bf16), add_backward(add_adapters(small_forward(DType::bf16), lora, false))}) {
    auto kept = results_of(put_adapters_first(backward));
    for (const Recompute& policy :
         {Recompute{Recompute::none}, Recompute{Recompute::selective}, Recompute{Recompute::full},
          Recompute{LayerValues{}.with(LayerValue::gated)}}) {
      Program apart = put_adapters_first(fuse_gates_made_again(apply_recompute(backward, {policy})));
      Program joined = fuse_gated_products(apart);
      EXPECT_LT(joined.ops.size(), apart.ops.size());
      EXPECT_EQ(results_of(joined), kept);
    }
  }
}

}  // namespace
}  // namespace snug
