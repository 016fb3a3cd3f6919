// The expected speed against sums made by hand.
#include "plan/speed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "backend/null/null_backend.h"
#include "compile/phases.h"
#include "ops/table.h"
#include "plan/training.h"
#include "support/small_llama.h"

namespace snug {
namespace {

constexpr DeviceRates kRates = {
    .product_flops = 800e12, .ceiling_flops = 700e12, .bytes_per_second = 4e12, .seconds_per_op = 0};

Plan plan_of(int64_t batch) {
  Recipe recipe = small_recipe();
  recipe.training.per_device_train_batch_size = batch;
  return make_plan(compile_training(recipe, small_llama(), recipe_limits(recipe, small_llama())),
                   NullBackend(), int64_t{1} << 40);
}

TEST(Speed, IsUnknownWithoutRates) {
  EXPECT_FALSE(estimate_speed(plan_of(2), {}).known());
}

TEST(Speed, CountsTokensAndSharesTheUpdate) {
  Plan plan = plan_of(2);
  SpeedEstimate once = estimate_speed(plan, kRates);
  plan.step.most = 4;
  SpeedEstimate four = estimate_speed(plan, kRates);
  EXPECT_EQ(once.tokens, 2.0 * static_cast<double>(small_recipe().data.max_length));
  EXPECT_EQ(four.tokens, 4 * once.tokens);
  EXPECT_LT(four.seconds, 4 * once.seconds);  // one update for four micro-batches
  EXPECT_GT(four.seconds, once.seconds);
  EXPECT_NEAR(four.ceiling_seconds, 4 * once.ceiling_seconds, 1e-12);
  EXPECT_GT(once.share_of_ceiling(), 0);
  EXPECT_LT(once.share_of_ceiling(), 1);
}

// Tokens without a target are not multiplied with the vocabulary.
TEST(Speed, TheHeadCountsByWhatIsLearned) {
  Plan plan = plan_of(2);
  SpeedEstimate all = estimate_speed(plan, kRates);
  plan.step.learned = 0.5;
  SpeedEstimate half = estimate_speed(plan, kRates);
  const Program& train = plan.phase(kTrainPhase).program;
  auto head = std::find_if(train.ops.begin(), train.ops.end(),
                           [](const Op& op) { return op.kind == OpKind::loss_head_gradient; });
  double head_seconds = cost_of(train, *head).flops / kRates.ceiling_flops;
  EXPECT_NEAR(all.ceiling_seconds - half.ceiling_seconds, 0.5 * head_seconds, 1e-9 * head_seconds);
  EXPECT_LT(half.seconds, all.seconds);
  EXPECT_EQ(half.tokens, all.tokens);
}

// A program of one product, so that the whole sum fits on a line.
TEST(Speed, IsWhatTakesLongerAndALittleOfTheOther) {
  Program train;
  train.name = kTrainPhase;
  BufferId ids = train.add_buffer({.name = "ids", .format = DType::i32, .dims = {fixed(1024)}});
  BufferId x = train.add_buffer({.name = "x", .format = DType::bf16, .dims = {fixed(1024), fixed(512)}});
  BufferId w = train.add_buffer({.name = "w", .format = DType::bf16, .dims = {fixed(256), fixed(512)}});
  BufferId y = train.add_buffer({.name = "y", .format = DType::bf16, .dims = {fixed(1024), fixed(256)}});
  (void)ids;
  train.ops.push_back({.kind = OpKind::linear, .inputs = {x, w, kNoBuffer}, .outputs = {y}});
  Program update;
  update.name = kUpdatePhase;
  Plan plan;
  plan.phases.resize(2);
  plan.phases[0].program = train;
  plan.phases[1].program = update;
  DeviceRates rates = kRates;
  rates.seconds_per_op = 1e-6;
  plan.step.most = 3;
  SpeedEstimate estimate = estimate_speed(plan, rates);
  double flops = 2.0 * 1024 * 256 * 512;
  double bytes = 2.0 * (1024 * 512 + 256 * 512 + 1024 * 256);
  EXPECT_EQ(estimate.tokens, 3 * 1024);
  // A tenth of the shorter one is not hidden, and a product is begun three times over.
  EXPECT_GT(bytes / 4e12, flops / 800e12);
  EXPECT_NEAR(estimate.seconds, 3 * (bytes / 4e12 + 0.1 * flops / 800e12 + 3e-6), 1e-12);
  EXPECT_NEAR(estimate.ceiling_seconds, 3 * flops / 700e12, 1e-12);
}

// Results of 8 bits are scaled in passes of their own where the device takes no scales of rows.
TEST(Speed, PassesThatScaleCountWhereTheyAreMade) {
  Program program;
  BufferId x = program.add_buffer({.name = "x", .format = DType::bf16, .dims = {fixed(1024), fixed(512)}});
  BufferId w = program.add_buffer({.name = "w", .format = kFp8, .dims = {fixed(256), fixed(512)}});
  program.buffers[static_cast<size_t>(w)].format.dtype = DType::bf16;
  program.buffers[static_cast<size_t>(w)].parts = {{.names = {"w"}, .row_begin = 0, .rows = 256}};
  BufferId y = program.add_buffer({.name = "y", .format = DType::bf16, .dims = {fixed(1024), fixed(256)}});
  Op written{.kind = OpKind::linear, .inputs = {x, w, kNoBuffer}, .outputs = {y}};
  Op added = written;
  added.accumulates = 1;
  DeviceRates with_scales = kRates;
  DeviceRates without = kRates;
  without.scales_rows = false;
  double pass = 2.0 * 1024 * 256 * 2 / 4e12;  // reads and writes y once
  auto difference = [&](const Op& op) {
    return op_seconds(program, op, without) - op_seconds(program, op, with_scales);
  };
  EXPECT_NEAR(difference(written), pass, 1e-6 * pass);
  EXPECT_NEAR(difference(added), 2 * pass, 1e-6 * pass);
  program.buffers[static_cast<size_t>(w)].format = DType::bf16;
  EXPECT_EQ(difference(added), 0);
}

// One sequence through attention with the heads of Qwen2.5-7B, in seconds at an H200's rates.
double attention_seconds(int64_t tokens) {
  Program program;
  auto add = [&](const char* name, DType format, Dims dims) {
    return program.add_buffer({.name = name, .format = format, .dims = std::move(dims)});
  };
  BufferId qkv = add("qkv", DType::bf16, {fixed(tokens), fixed(36 * 128)});
  BufferId offsets = add("offsets", DType::i32, {fixed(2)});
  BufferId o = add("o", DType::bf16, {fixed(tokens), fixed(28 * 128)});
  BufferId lse = add("lse", DType::f32, {fixed(tokens), fixed(28)});
  Op op{.kind = OpKind::attention,
        .inputs = {qkv, qkv, offsets, offsets, kNoBuffer},
        .outputs = {o, lse},
        .attributes = AttentionAttributes{.heads = 28, .kv_heads = 4, .head_dim = 128}};
  return op_seconds(
      program, op,
      {.product_flops = 681e12, .ceiling_flops = 681e12, .bytes_per_second = 4.2e12, .seconds_per_op = 1e-6});
}

// Against what the kernel took on an H200 (bench/gpu/README.md): long sequences fill it better.
TEST(Speed, LongSequencesGoThroughAttentionAtAHigherRate) {
  EXPECT_NEAR(attention_seconds(32768), 14.16e-3, 0.1 * 14.16e-3);
  EXPECT_NEAR(attention_seconds(16384), 3.526e-3, 0.1 * 3.526e-3);
}

}  // namespace
}  // namespace snug
