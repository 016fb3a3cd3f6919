// Attention on the card as its launchers take it. Raw pointers and counts only, so that tests and benchmarks
// can call them without a program; and what the kernels need and support, which no pointer is read for.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "program/op.h"

namespace snug::cuda {

enum class AttentionNumber : uint8_t { f32, f16, bf16 };

// Sequences lie end to end: sequence s has the queries [q_offsets[s], q_offsets[s+1]) and the keys
// [kv_offsets[s], kv_offsets[s+1]). The counts here bound the grid; the offsets, in device memory, say what
// there is, so that a captured graph serves any batch within the bounds (unused sequences have no rows).
//
// Query i of a sequence stands at position i + keys - queries, key j at position j, and
//   score[i,j] = scale * q[i] . k[j] + bias[bucket(j - position(i)), head]
//   o[i] = sum_j dropout(softmax_j(score[i,:])) v[j],  lse[i] = log sum_j exp(score[i,j])
// over the keys that the query sees: j <= position(i) if causal, j > position(i) - window if window > 0.
// A query that sees no key gives o = 0 and lse = -inf.
struct AttentionParameters {
  AttentionNumber number = AttentionNumber::bf16;  // of q, k, v, o, bias and their gradients

  // Rows of wider buffers: each pointer is at the first head's first column of row 0, strides count elements.
  const void* q = nullptr;  // [T, heads * head_dim]
  const void* k = nullptr;  // [Tk, kv_heads * head_dim]
  const void* v = nullptr;  // [Tk, kv_heads * head_dim]
  int64_t q_stride = 0;
  int64_t kv_stride = 0;
  const int32_t* q_offsets = nullptr;   // [sequences + 1]
  const int32_t* kv_offsets = nullptr;  // [sequences + 1]
  void* o = nullptr;                    // [T, heads * head_dim], no gaps; written forward, read backward
  float* lse = nullptr;                 // [T, heads]; written forward, read backward

  // Backward: all written (=), but dbias, which is added to (+=). Null dq, or null dk and dv: not wanted.
  const void* dout = nullptr;  // [T, heads * head_dim], no gaps
  void* dq = nullptr;          // rows as q's
  void* dk = nullptr;          // rows as k's
  void* dv = nullptr;
  int64_t dq_stride = 0;
  int64_t dkv_stride = 0;

  // T5's relative position bias; null: none.
  const void* bias = nullptr;  // [buckets, heads]
  void* dbias = nullptr;       // [buckets, heads]; needs dq
  bool dbias_is_f32 = false;   // else of `number`
  bool bidirectional_buckets = false;
  int buckets = 0;
  int max_distance = 0;

  // Dropout of the weights (backend/dropout_mask.h); null: none.
  const int64_t* random = nullptr;  // seed, step, first token
  float dropout = 0;
  uint64_t dropout_stream = 0;

  int64_t queries = 0;    // T, at least q_offsets[sequences]
  int64_t keys = 0;       // Tk, at least kv_offsets[sequences]
  int64_t sequences = 0;  // at least 1
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  float scale = 1.0F;
  bool causal = true;
  int64_t window = 0;

  void* workspace = nullptr;       // attention_backward_workspace_bytes
  int64_t shared_limit_bytes = 0;  // tests: act as on a card with this much shared memory; 0: the card's own
  bool without_tensor_cores = false;  // tests: the plain kernels
  bool without_hopper = false;        // tests: the kernels of every card since Turing
  int key_tile_blocks = 0;  // tests: so many blocks share a tile of keys, where they may; 0: as is best
};

// What an op says, without counts and addresses.
AttentionParameters attention_shape(const AttentionAttributes& attributes, DType dtype);

// "" if the kernels can do it, else what they cannot. Reads no pointers.
const char* find_unsupported_attention(const AttentionParameters& parameters);

inline constexpr int kMaximumBuckets = 64;
inline constexpr int kMaximumReach = 512;

// The smallest tile of queries with bias partials of its own, which bounds their number.
inline constexpr int kSmallestQueryTile = 16;

// Slots for tiles of `rows` rows: sequence s owns the slots from offsets[s] / rows + s, which are always
// enough for its rows; some of them may be empty. So a block finds its tile without a list made beforehand.
constexpr int64_t tile_slots(int64_t total_rows, int64_t sequences, int64_t rows) {
  return total_rows / rows + sequences;
}

// The smallest tiles of keys and of queries in the gradient in one pass (one_pass_gradient.cu and
// hopper_gradient.cu in backend/cuda/attention), which bound their number on every card. Its sums of dq are
// kept by slots of 8 queries, so that the many short sequences of a pack waste little.
inline constexpr int kSmallestGradientTile = 64;
inline constexpr int kGradientSumRows = 8;
constexpr int gradient_head_dim(int head_dim) {
  return head_dim <= 64 ? 64 : 128;
}

// Dropout of weights is part of Hopper's kernels for heads up to this size: models with larger ones, all of
// them decoders, have none by their configs, and there are registers enough. Elsewhere gradients are made in
// two passes.
inline constexpr int kMostDroppedColumns = 64;

// Where tiles of keys are few, several blocks share each (one_pass_gradient.cu) and add up dk and dv in fp32.
// Those of all kv heads may take so much: where there are more keys, there are tiles enough for every card's
// processors, and each has a block for itself.
inline constexpr int kLargestGradientTile = 128;
inline constexpr int64_t kMaximumSharedBytes = int64_t{28} << 20;

// Where the parts of the backward pass's scratch memory begin, in bytes. First two floats a query and head.
struct AttentionWorkspace {
  int64_t bias_at = 0;  // partials of the bias's gradient
  // int32 [heads, query tiles]: how many key tiles have added to dq; then, of tiles of keys that blocks
  // share, [key tiles, 2]: how many blocks have added to dv and to dk.
  int64_t turns_at = 0;
  int64_t key_tiles_at = 0;  // int32 [key tile slots, 2]: sequence and tile, in the order of work
  int64_t dq_at = 0;         // fp32 [heads, slots of queries, 8 * padded head_dim]
  int64_t dkv_at = 0;        // fp32 [key tiles, 2, keys of a tile, padded head_dim]
  int64_t dkv_bytes = 0;     // of key tiles that blocks may share
  int64_t bytes = 0;
};
AttentionWorkspace attention_workspace(const AttentionParameters& parameters);

// Scratch bytes at the planned counts; forward needs none.
int64_t attention_backward_workspace_bytes(const AttentionParameters& parameters);

}  // namespace snug::cuda
