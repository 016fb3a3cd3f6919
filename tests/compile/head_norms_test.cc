// Norms of heads and rotations on a small Qwen3: where they become one op, and where they stay two.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/adapters.h"
#include "compile/backward.h"
#include "compile/fuse.h"
#include "compile/phases.h"
#include "compile/recompute.h"
#include "ops/effects.h"
#include "ops/table.h"
#include "program/operands.h"
#include "support/small_llama.h"

namespace snug {
namespace {

constexpr int64_t kLayers = 3;

Program small_forward() {
  return build_forward(small_qwen3(kLayers),
                       {.goal = Goal::loss, .dtype = DType::f32, .max_tokens = 10, .max_sequences = 2});
}

// Trained as a whole, so that the norms' weights have gradients.
Program small_backward() {
  Program forward = small_forward();
  for (Buffer& buffer : forward.buffers) {
    buffer.trainable = is_model_parameter(buffer);
  }
  return add_backward(std::move(forward));
}

int64_t count(const Program& program, OpKind kind) {
  return std::count_if(program.ops.begin(), program.ops.end(), [&](const Op& op) { return op.kind == kind; });
}

// The line of the op, without its kind and what stands before it.
std::string line_of(const Program& program, const std::string& name) {
  std::string text = to_text(program);
  size_t begin = text.find(" " + name + ": ");
  return begin == std::string::npos ? "" : text.substr(begin + 1, text.find('\n', begin) - begin - 1);
}

// Programs keep their rules, and nothing is left that no op uses.
Program verified(Program program) {
  verify_with_shapes(program);
  std::vector<Interval> intervals = lifetimes(program);
  for (size_t id = 0; id < intervals.size(); ++id) {
    EXPECT_GE(intervals[id].first, 0) << program.buffers[id].name;
  }
  return program;
}

void expect_joined(const Program& program, int64_t forward, int64_t backward) {
  EXPECT_EQ(count(program, OpKind::head_norm_rope), forward);
  EXPECT_EQ(count(program, OpKind::head_norm_rope_backward), backward);
  for (OpKind kind : {OpKind::head_norm, OpKind::head_norm_backward, OpKind::rope}) {
    EXPECT_EQ(count(program, kind), 0) << row_of(kind).name;
  }
}

TEST(FuseHeadNorms, NormAndRotationBecomeOneOpBothWays) {
  Program apart = small_backward();
  Program program = verified(fuse_head_norms(apart));
  expect_joined(program, kLayers, kLayers);
  EXPECT_EQ(program.ops.size(), apart.ops.size() - 2 * kLayers);
  EXPECT_EQ(program.buffers.size(), apart.buffers.size() - 2 * kLayers);
  EXPECT_EQ(program.find("layers.1.head_norm"), kNoBuffer);
  EXPECT_EQ(program.find("d.layers.1.head_norm"), kNoBuffer);
  const std::string weights =
      "model.layers.1.self_attn.q_norm.weight, model.layers.1.self_attn.k_norm.weight, ";
  EXPECT_EQ(line_of(program, "layers.1.head_norm + layers.1.rope"),
            "layers.1.head_norm + layers.1.rope: layers.1.qkv, " + weights +
                "positions, inverse_frequencies -> layers.1.rotated");
  EXPECT_EQ(line_of(program, "layers.1.rope + layers.1.head_norm"),
            "layers.1.rope + layers.1.head_norm: layers.1.qkv, " + weights +
                "d.layers.1.rotated, positions, inverse_frequencies -> d.layers.1.qkv, "
                "model.layers.1.self_attn.q_norm.weight.grad +=, "
                "model.layers.1.self_attn.k_norm.weight.grad +=");
}

TEST(FuseHeadNorms, TheJoinedOpTurnsAsTheRotationDid) {
  Program apart = small_backward();
  for (Op& op : apart.ops) {
    if (op.kind == OpKind::rope) {
      std::get<RopeAttributes>(op.attributes).magnitude = 1.25F;
    }
  }
  Program program = fuse_head_norms(apart);
  int64_t seen = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::head_norm_rope || op.kind == OpKind::head_norm_rope_backward) {
      EXPECT_EQ(attributes_of<HeadNormAttributes>(op).magnitude, 1.25F);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2 * kLayers);
}

// Policies decide about what is left: what comes out of both ops, and what goes into them.
TEST(FuseHeadNorms, WhatIsMadeAgainIsJoinedToo) {
  Program joined = fuse_head_norms(small_backward());
  Program full = verified(apply_recompute(joined, {Recompute::full}));
  expect_joined(full, 2 * kLayers, kLayers);
  EXPECT_NE(full.find("layers.1.rotated.again"), kNoBuffer);
  Recompute but_rotated{LayerValues{kAllLayerValues}.without(LayerValue::rotated)};
  Program program = verified(apply_recompute(joined, {but_rotated}));
  expect_joined(program, 2 * kLayers, kLayers);
  EXPECT_EQ(program.buffer(program.find("layers.1.qkv")).role, Role::kept_activations);
  EXPECT_EQ(program.find("layers.1.qkv.again"), kNoBuffer);
}

TEST(FuseHeadNorms, LeavesWhatIsReadTwiceOrTurnsOtherHeads) {
  Program read_twice = small_forward();
  for (Op& op : read_twice.ops) {
    if (op.kind == OpKind::attention) {  // its keys from before the rotation
      op.inputs[AttentionInput::kv] = read_twice.find("layers.0.head_norm");
    }
  }
  Program left = verified(fuse_head_norms(read_twice));
  EXPECT_EQ(count(left, OpKind::head_norm_rope), kLayers - 1);
  EXPECT_NE(left.find("layers.0.head_norm"), kNoBuffer);
  Program other_heads = small_backward();
  for (Op& op : other_heads.ops) {
    if (op.kind == OpKind::rope) {
      std::get<RopeAttributes>(op.attributes).rotated_heads -= 1;
    }
  }
  EXPECT_EQ(to_text(verified(fuse_head_norms(other_heads))), to_text(other_heads));
  Program without_norms = build_forward(
      small_llama(), {.goal = Goal::loss, .dtype = DType::f32, .max_tokens = 10, .max_sequences = 2});
  EXPECT_EQ(to_text(fuse_head_norms(without_norms)), to_text(without_norms));
}

TEST(FuseHeadNorms, EveryPhaseThatRunsTheModelHasThem) {
  ModelSpec spec = small_qwen3(kLayers);
  Recipe recipe = small_recipe();
  recipe.lora = LoraSection{.r = 4};
  int64_t phases = 0;
  for (const Program& program : compile_training(recipe, spec, recipe_limits(recipe, spec))) {
    if (program.name == kTrainPhase || program.name == kEvaluatePhase) {
      expect_joined(verified(program), kLayers, program.name == kTrainPhase ? kLayers : 0);
      ++phases;
    }
  }
  for (const Program& program : compile_generation(spec, {.max_prompt_tokens = 5, .max_total_tokens = 12})) {
    if (program.name == kGeneratePhase) {
      expect_joined(verified(program), kLayers, 0);
      ++phases;
    }
  }
  EXPECT_EQ(phases, 3);
}

}  // namespace
}  // namespace snug
