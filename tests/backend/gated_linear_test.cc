// A product joined with a gated activation, or with an adapter's share: the same bits as the ops that it
// stands for, which have tests of their own against formulas (gemm_test.cc, elementwise_test.cc,
// lora_test.cc).
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

constexpr int64_t kTokens = 19;
constexpr int64_t kWidth = 24;
constexpr int64_t kFeatures = 37;

Dims by_tokens(int64_t columns) {
  return {tokens(kTokens), fixed(columns)};
}

std::vector<float> values_of(int64_t columns, uint64_t seed, DType dtype) {
  return rounded(random_values(kTokens * columns, seed), dtype);
}

TEST(GatedLinear, IsAProductAndItsGate) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (uint32_t adds : {0U, 1U}) {
      Builder builder("gated");
      BufferId x = builder.input("x", dtype, by_tokens(kWidth));
      BufferId w = builder.weight("w", dtype, {fixed(2 * kFeatures), fixed(kWidth)}, {});
      BufferId sums = builder.input("sums", dtype, by_tokens(2 * kFeatures));
      BufferId y = builder.temporary("y", dtype, by_tokens(kFeatures));
      BufferId other_sums = builder.input("other_sums", dtype, by_tokens(2 * kFeatures));
      BufferId other_y = builder.temporary("other_y", dtype, by_tokens(kFeatures));
      LinearAttributes product{0.5F};
      GateAttributes gate{Activation::gelu_tanh};
      builder.append(OpKind::gated_linear, "joined", {x, w}, {sums, y}, GatedLinearAttributes{product, gate})
          .accumulates = adds;
      builder.append(OpKind::linear, "product", {x, w}, {other_sums}, product).accumulates = adds;
      builder.append(OpKind::gated_activation, "gate", {other_sums}, {other_y}, gate);
      OpRunner runner(builder.finish());
      runner.set("x", values_of(kWidth, 1, dtype));
      runner.set("w", rounded(random_values(2 * kFeatures * kWidth, 2), dtype));
      runner.set("sums", values_of(2 * kFeatures, 3, dtype));
      runner.set("other_sums", values_of(2 * kFeatures, 3, dtype));
      runner.run();
      EXPECT_EQ(runner.get("sums"), runner.get("other_sums"));
      EXPECT_EQ(runner.get("y"), runner.get("other_y"));
    }
  }
}

TEST(GatedLinear, ItsGradientIsAProductAndTheGatesGradient) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (int variant = 0; variant < 4; ++variant) {
      bool adds = (variant & 1) != 0;
      bool makes_again = (variant & 2) != 0;
      Builder builder("gated");
      BufferId x = builder.input("x", dtype, by_tokens(2 * kFeatures));
      BufferId dy = builder.input("dy", dtype, by_tokens(kWidth));
      BufferId w = builder.weight("w", dtype, {fixed(kWidth), fixed(kFeatures)}, {});
      BufferId part = builder.input("part", dtype, by_tokens(kFeatures));
      BufferId whole = builder.input("whole", dtype, by_tokens(kFeatures));
      BufferId dx = builder.temporary("dx", dtype, by_tokens(2 * kFeatures));
      BufferId again = builder.temporary("again", dtype, by_tokens(kFeatures));
      BufferId other_dx = builder.temporary("other_dx", dtype, by_tokens(2 * kFeatures));
      BufferId other_again = builder.temporary("other_again", dtype, by_tokens(kFeatures));
      LinearAttributes product{0.5F};
      GateAttributes gate{Activation::silu};
      std::vector<BufferId> results = {dx};
      if (makes_again) {
        results.push_back(again);
      }
      builder.append(OpKind::gated_linear_backward, "joined", {x, adds ? part : kNoBuffer, dy, w}, results,
                     GatedLinearAttributes{product, gate});
      builder.append(OpKind::linear_backward_input, "product", {dy, w}, {whole}, product).accumulates =
          adds ? 1 : 0;
      builder.append(OpKind::gated_activation_backward, "gate", {x, whole}, {other_dx, other_again}, gate);
      OpRunner runner(builder.finish());
      runner.set("x", values_of(2 * kFeatures, 1, dtype));
      runner.set("dy", values_of(kWidth, 2, dtype));
      runner.set("w", rounded(random_values(kFeatures * kWidth, 3), dtype));
      runner.set("part", values_of(kFeatures, 4, dtype));
      runner.set("whole", values_of(kFeatures, 4, dtype));
      runner.run();
      EXPECT_EQ(runner.get("dx"), runner.get("other_dx"));
      if (makes_again) {
        EXPECT_EQ(runner.get("again"), runner.get("other_again"));
      }
    }
  }
}

constexpr int64_t kRank = 5;

TEST(AdaptedLinear, IsAnAdaptersShareAndAProduct) {
  LoraAttributes parts{0.75F, kRank, {{0, 0, 20}, {20, 20, kFeatures - 20}}};
  for (DType dtype : {DType::f32, DType::bf16}) {
    Builder builder("adapted");
    BufferId x = builder.input("x", dtype, by_tokens(kWidth));
    BufferId w = builder.weight("w", dtype, {fixed(kFeatures), fixed(kWidth)}, {});
    BufferId bias = builder.weight("bias", dtype, {fixed(kFeatures)}, {});
    BufferId down = builder.input("down", dtype, by_tokens(2 * kRank));
    BufferId b = builder.weight("b", dtype, {fixed(kFeatures), fixed(kRank)}, {});
    BufferId y = builder.temporary("y", dtype, by_tokens(kFeatures));
    BufferId other_y = builder.temporary("other_y", dtype, by_tokens(kFeatures));
    builder.append(OpKind::linear, "joined", {x, w, bias, down, b}, {y}, LinearAttributes{1.0F, parts});
    builder.append(OpKind::lora_up, "share", {down, b}, {other_y}, parts);
    builder.append(OpKind::linear, "product", {x, w, bias}, {other_y}, LinearAttributes{}).accumulates = 1;
    OpRunner runner(builder.finish());
    runner.set("x", values_of(kWidth, 1, dtype));
    runner.set("w", rounded(random_values(kFeatures * kWidth, 2), dtype));
    runner.set("bias", rounded(random_values(kFeatures, 3), dtype));
    runner.set("down", values_of(2 * kRank, 4, dtype));
    runner.set("b", rounded(random_values(kFeatures * kRank, 5), dtype));
    runner.run();
    EXPECT_EQ(runner.get("y"), runner.get("other_y"));
  }
}

TEST(AdaptedLinear, ItsGradientIsAShareAndAProduct) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Builder builder("adapted");
    BufferId dy = builder.input("dy", dtype, by_tokens(kFeatures));
    BufferId w = builder.weight("w", dtype, {fixed(kFeatures), fixed(kWidth)}, {});
    BufferId ddown = builder.input("ddown", dtype, by_tokens(2 * kRank));
    BufferId a = builder.weight("a", dtype, {fixed(2 * kRank), fixed(kWidth)}, {});
    BufferId dx = builder.temporary("dx", dtype, by_tokens(kWidth));
    BufferId other_dx = builder.temporary("other_dx", dtype, by_tokens(kWidth));
    builder.append(OpKind::linear_backward_input, "joined", {dy, w, ddown, a}, {dx}, LinearAttributes{});
    builder.append(OpKind::linear_backward_input, "share", {ddown, a}, {other_dx}, LinearAttributes{});
    builder.append(OpKind::linear_backward_input, "product", {dy, w}, {other_dx}, LinearAttributes{})
        .accumulates = 1;
    OpRunner runner(builder.finish());
    runner.set("dy", values_of(kFeatures, 1, dtype));
    runner.set("w", rounded(random_values(kFeatures * kWidth, 2), dtype));
    runner.set("ddown", values_of(2 * kRank, 3, dtype));
    runner.set("a", rounded(random_values(2 * kRank * kWidth, 4), dtype));
    runner.run();
    EXPECT_EQ(runner.get("dx"), runner.get("other_dx"));
  }
}

TEST(GatedLinear, BeginsWithAnAdaptersShare) {
  LoraAttributes halves{0.75F, kRank, {{0, 0, kFeatures}, {kFeatures, kFeatures, kFeatures}}};
  LoraAttributes whole{1.5F, kRank, {{0, 0, 2 * kFeatures}}};
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (const LoraAttributes& adapter : {halves, whole}) {
      auto down_columns = static_cast<int64_t>(adapter.parts.size()) * kRank;
      Builder builder("gated");
      BufferId x = builder.input("x", dtype, by_tokens(kWidth));
      BufferId w = builder.weight("w", dtype, {fixed(2 * kFeatures), fixed(kWidth)}, {});
      BufferId down = builder.input("down", dtype, by_tokens(down_columns));
      BufferId b = builder.weight("b", dtype, {fixed(2 * kFeatures), fixed(kRank)}, {});
      BufferId sums = builder.temporary("sums", dtype, by_tokens(2 * kFeatures));
      BufferId y = builder.temporary("y", dtype, by_tokens(kFeatures));
      BufferId other_sums = builder.temporary("other_sums", dtype, by_tokens(2 * kFeatures));
      BufferId other_y = builder.temporary("other_y", dtype, by_tokens(kFeatures));
      GateAttributes gate{Activation::silu};
      builder.append(OpKind::gated_linear, "joined", {x, w, kNoBuffer, down, b}, {sums, y},
                     GatedLinearAttributes{{1.0F, adapter}, gate});
      builder.append(OpKind::lora_up, "share", {down, b}, {other_sums}, adapter);
      builder.append(OpKind::linear, "product", {x, w}, {other_sums}, LinearAttributes{}).accumulates = 1;
      builder.append(OpKind::gated_activation, "gate", {other_sums}, {other_y}, gate);
      OpRunner runner(builder.finish());
      runner.set("x", values_of(kWidth, 1, dtype));
      runner.set("w", rounded(random_values(2 * kFeatures * kWidth, 2), dtype));
      runner.set("down", values_of(down_columns, 3, dtype));
      runner.set("b", rounded(random_values(2 * kFeatures * kRank, 4), dtype));
      runner.run();
      EXPECT_EQ(runner.get("sums"), runner.get("other_sums"));
      EXPECT_EQ(runner.get("y"), runner.get("other_y"));
    }
  }
}

TEST(GatedLinear, ItsGradientBeginsWithAnAdaptersShare) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (bool makes_again : {false, true}) {
      Builder builder("gated");
      BufferId x = builder.input("x", dtype, by_tokens(2 * kFeatures));
      BufferId dy = builder.input("dy", dtype, by_tokens(kWidth));
      BufferId w = builder.weight("w", dtype, {fixed(kWidth), fixed(kFeatures)}, {});
      BufferId ddown = builder.input("ddown", dtype, by_tokens(kRank));
      BufferId a = builder.weight("a", dtype, {fixed(kRank), fixed(kFeatures)}, {});
      BufferId gradient = builder.temporary("gradient", dtype, by_tokens(kFeatures));
      BufferId dx = builder.temporary("dx", dtype, by_tokens(2 * kFeatures));
      BufferId again = builder.temporary("again", dtype, by_tokens(kFeatures));
      BufferId other_dx = builder.temporary("other_dx", dtype, by_tokens(2 * kFeatures));
      BufferId other_again = builder.temporary("other_again", dtype, by_tokens(kFeatures));
      GateAttributes gate{Activation::gelu_tanh};
      std::vector<BufferId> results = {dx};
      if (makes_again) {
        results.push_back(again);
      }
      builder.append(OpKind::gated_linear_backward, "joined", {x, kNoBuffer, dy, w, ddown, a}, results,
                     GatedLinearAttributes{{}, gate});
      builder.append(OpKind::linear_backward_input, "share", {ddown, a}, {gradient}, LinearAttributes{});
      builder.append(OpKind::linear_backward_input, "product", {dy, w}, {gradient}, LinearAttributes{})
          .accumulates = 1;
      builder.append(OpKind::gated_activation_backward, "gate", {x, gradient}, {other_dx, other_again}, gate);
      OpRunner runner(builder.finish());
      runner.set("x", values_of(2 * kFeatures, 1, dtype));
      runner.set("dy", values_of(kWidth, 2, dtype));
      runner.set("w", rounded(random_values(kFeatures * kWidth, 3), dtype));
      runner.set("ddown", values_of(kRank, 4, dtype));
      runner.set("a", rounded(random_values(kFeatures * kRank, 5), dtype));
      runner.run();
      EXPECT_EQ(runner.get("dx"), runner.get("other_dx"));
      if (makes_again) {
        EXPECT_EQ(runner.get("again"), runner.get("other_again"));
      }
    }
  }
}

}  // namespace
}  // namespace snug
