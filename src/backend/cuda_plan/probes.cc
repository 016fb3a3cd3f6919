// The ops, as a model of this width has them.
#include "backend/cuda_plan/probes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cuda_plan/needs.h"
#include "base/bytes.h"
#include "program/builder.h"

namespace snug::cuda {
namespace {

// Qwen2.5-7B's.
constexpr int64_t kWidth = 3584;
constexpr int64_t kInner = 18944;
constexpr int64_t kHeads = 28;
constexpr int64_t kKvHeads = 4;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kRank = 16;

// Products have to be kept up for longer: they are what a card lowers its clocks for.
constexpr double kProductSeconds = 0.4;

Dims rows_of(int64_t columns) {
  return {fixed(kProbeTokens), fixed(columns)};
}

// An activation: it reads twice what it writes.
Program memory_program(DType dtype) {
  Builder builder("memory");
  BufferId x = builder.input("x", dtype, rows_of(kInner));
  BufferId y = builder.temporary("y", dtype, rows_of(kInner / 2));
  builder.append(OpKind::gated_activation, "gated", {x}, {y}, GateAttributes{});
  return builder.finish();
}

// y and dx of one weight, as both are half of what a run with adapters multiplies.
Program product_program(DType dtype) {
  Builder builder("products");
  BufferId x = builder.input("x", dtype, rows_of(kWidth));
  BufferId w = builder.weight("w", dtype, {fixed(kInner), fixed(kWidth)}, {});
  BufferId y = builder.temporary("y", dtype, rows_of(kInner));
  BufferId dx = builder.temporary("dx", dtype, rows_of(kWidth));
  builder.append(OpKind::linear, "y", {x, w, kNoBuffer}, {y}, LinearAttributes{});
  builder.append(OpKind::linear_backward_input, "dx", {y, w}, {dx}, LinearAttributes{});
  return builder.finish();
}

Program attention_program(DType dtype, bool with_gradient) {
  AttentionAttributes attributes{.heads = kHeads, .kv_heads = kKvHeads, .head_dim = kHeadDim};
  attributes.k_column = kHeads * kHeadDim;
  attributes.v_column = attributes.k_column + kKvHeads * kHeadDim;
  attributes.scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim));
  Builder builder("attention");
  Dims qkv_dims = rows_of((kHeads + 2 * kKvHeads) * kHeadDim);
  BufferId qkv = builder.input("qkv", dtype, qkv_dims);
  BufferId offsets = builder.input("offsets", DType::i32, {fixed(kProbeSequences + 1)});
  BufferId o = builder.temporary("o", dtype, rows_of(kHeads * kHeadDim));
  BufferId lse = builder.temporary("lse", DType::f32, rows_of(kHeads));
  builder.append(OpKind::attention, "attention", {qkv, qkv, offsets, offsets}, {o, lse}, attributes);
  if (with_gradient) {
    BufferId dout = builder.input("dout", dtype, rows_of(kHeads * kHeadDim));
    BufferId dqkv = builder.temporary("dqkv", dtype, qkv_dims);
    builder.append(OpKind::attention_backward, "backward", {qkv, qkv, offsets, offsets, o, lse, dout},
                   {dqkv, dqkv}, attributes);
  }
  return builder.finish();
}

// The thin product of two layers that lie side by side.
Program adapter_program(DType dtype) {
  constexpr int64_t kHalf = kInner / 2;
  Builder builder("adapter");
  BufferId down = builder.input("down", dtype, rows_of(2 * kRank));
  BufferId b = builder.weight("b", dtype, {fixed(kInner), fixed(kRank)}, {});
  BufferId y = builder.temporary("y", dtype, rows_of(kInner));
  LoraAttributes attributes{.rank = kRank,
                            .parts = {{.y_column = 0, .b_row = 0, .rows = kHalf},
                                      {.y_column = kHalf, .b_row = kHalf, .rows = kHalf}}};
  builder.append(OpKind::lora_up, "up", {down, b}, {y}, std::move(attributes));
  return builder.finish();
}

}  // namespace

std::vector<Probe> card_probes(DType dtype) {
  std::vector<Probe> probes;
  probes.push_back({.kind = ProbeKind::memory, .program = memory_program(dtype)});
  probes.push_back(
      {.kind = ProbeKind::products, .program = product_program(dtype), .seconds = kProductSeconds});
  probes.push_back({.kind = ProbeKind::attention, .program = attention_program(dtype, false)});
  probes.push_back(
      {.kind = ProbeKind::attention_backward, .program = attention_program(dtype, true), .first_timed = 1});
  probes.push_back({.kind = ProbeKind::adapter, .program = adapter_program(dtype)});
  return probes;
}

ProbePlaces places_of(const Program& program) {
  ProbePlaces places;
  for (const Buffer& buffer : program.buffers) {
    places.offsets.push_back(places.scratch_offset);
    places.scratch_offset += align_up(buffer.max_bytes());
  }
  int64_t scratch_bytes = 0;
  for (const Op& op : program.ops) {
    scratch_bytes = std::max(scratch_bytes, workspace_bytes(program, op));
  }
  places.bytes = places.scratch_offset + align_up(scratch_bytes);
  return places;
}

}  // namespace snug::cuda
