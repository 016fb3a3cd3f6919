// Attention: from an op's attributes to the kernels' parameters, and what follows from those.
#include "backend/cuda_plan/attention.h"

#include <algorithm>

#include "backend/cuda_plan/need_functions.h"
#include "base/bytes.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

AttentionNumber number_of(DType dtype) {
  if (dtype == DType::f32) {
    return AttentionNumber::f32;
  }
  return dtype == DType::f16 ? AttentionNumber::f16 : AttentionNumber::bf16;
}

// At the planned sizes, without addresses.
AttentionParameters planned(const Program& program, const Op& op) {
  const Buffer& q = program.buffer(op.inputs[AttentionInput::q]);
  const Buffer& kv = program.buffer(op.inputs[AttentionInput::kv]);
  AttentionParameters parameters = attention_shape(attributes_of<AttentionAttributes>(op), q.dtype());
  parameters.q_stride = q.dims[1].max;
  parameters.kv_stride = kv.dims[1].max;
  parameters.dq_stride = parameters.q_stride;
  parameters.dkv_stride = parameters.kv_stride;
  parameters.queries = q.dims[0].max;
  parameters.keys = kv.dims[0].max;
  parameters.sequences = program.buffer(op.inputs[AttentionInput::q_offsets]).dims[0].max - 1;
  return parameters;
}

}  // namespace

AttentionParameters attention_shape(const AttentionAttributes& attributes, DType dtype) {
  AttentionParameters parameters;
  parameters.number = number_of(dtype);
  parameters.heads = static_cast<int>(attributes.heads);
  parameters.kv_heads = static_cast<int>(attributes.kv_heads);
  parameters.head_dim = static_cast<int>(attributes.head_dim);
  parameters.scale = attributes.scale;
  parameters.causal = attributes.causal;
  parameters.window = attributes.window;
  parameters.buckets = static_cast<int>(attributes.relative_buckets);
  parameters.max_distance = static_cast<int>(attributes.relative_max_distance);
  parameters.bidirectional_buckets = attributes.bidirectional_buckets;
  parameters.dropout = attributes.dropout.probability;
  parameters.dropout_stream = attributes.dropout.stream;
  return parameters;
}

const char* find_unsupported_attention(const AttentionParameters& p) {
  if (p.head_dim <= 0 || p.head_dim > 256) {
    return "head sizes above 256";
  }
  if (p.kv_heads <= 0 || p.heads % p.kv_heads != 0) {
    return "heads that are not a multiple of kv_heads";
  }
  if (p.queries * p.heads * 8 > int64_t{1} << 31 || p.keys > int64_t{1} << 28) {
    return "that many tokens at once";
  }
  if (p.buckets != 0 || p.bias != nullptr) {
    int side = p.bidirectional_buckets ? p.buckets / 2 : p.buckets;
    if (side < 2 || p.buckets > kMaximumBuckets || p.max_distance > kMaximumReach ||
        p.max_distance <= side / 2) {
      return "these relative position buckets";
    }
  }
  return "";
}

AttentionWorkspace attention_workspace(const AttentionParameters& p) {
  AttentionWorkspace workspace;
  auto place = [&](int64_t bytes) {
    int64_t at = workspace.bytes;
    workspace.bytes += align_up(bytes);
    return at;
  };
  place(p.queries * p.heads * 2 * int64_t{sizeof(float)});
  int64_t key_tiles = tile_slots(p.keys, p.sequences, kSmallestGradientTile);
  if (p.buckets > 0) {
    int64_t tiles = std::max(tile_slots(p.queries, p.sequences, kSmallestQueryTile), key_tiles);
    workspace.bias_at = place(tiles * p.heads * p.buckets * 4);
  }
  if (p.number != AttentionNumber::f32 && p.head_dim <= (p.dropout == 0 ? 128 : kMostDroppedColumns)) {
    int64_t query_tiles = tile_slots(p.queries, p.sequences, kSmallestGradientTile);
    int64_t key_bytes = int64_t{2} * gradient_head_dim(p.head_dim) * 4;
    if (p.buckets == 0 && p.dropout == 0) {
      int64_t keys = tile_slots(p.keys, p.sequences, kLargestGradientTile) * kLargestGradientTile;
      workspace.dkv_bytes = std::min(keys * p.kv_heads * key_bytes, kMaximumSharedBytes);
    }
    int64_t shared_tiles = workspace.dkv_bytes / (kSmallestGradientTile * key_bytes);
    workspace.turns_at = place((query_tiles * p.heads + shared_tiles * 2) * 4);
    workspace.key_tiles_at = place(key_tiles * 8);
    int64_t rows = tile_slots(p.queries, p.sequences, kGradientSumRows) * kGradientSumRows;
    workspace.dq_at = place(rows * p.heads * gradient_head_dim(p.head_dim) * 4);
    workspace.dkv_at = place(workspace.dkv_bytes);
  }
  return workspace;
}

int64_t attention_backward_workspace_bytes(const AttentionParameters& p) {
  return attention_workspace(p).bytes;
}

int64_t attention_backward_workspace(const Program& program, const Op& op) {
  return attention_backward_workspace_bytes(planned(program, op));
}

std::string find_unsupported_attention(const Program& program, const Op& op) {
  std::string problem = find_unsupported_attention(planned(program, op));
  return problem.empty() ? "" : "the cuda backend has no attention kernel for it: " + problem;
}

}  // namespace snug::cuda
