// What all attention kernels share: their arguments, how a block finds its rows in the offsets, which keys a
// query sees, and T5's buckets.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/attention/launch.h"
#include "backend/cuda/instructions/threads.cuh"
#include "backend/dropout_mask.h"

namespace snug::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr float kLn2 = 0.6931471805599453F;
inline constexpr int kFar = 1 << 29;  // beyond any position, and sums of two stay within int

// Passed to kernels by value.
struct AttentionArguments {
  AttentionParameters p;
  float scale_log2 = 0;  // scale * log2(e): exponentials are powers of two
  int group = 1;         // query heads a kv head
  // A query sees a key if lowest <= key position - query position <= highest.
  int lowest = -kFar;
  int highest = kFar;
  // Buckets of distances on one side: bucket b starts at distance starts[b].
  int side_buckets = 0;
  int16_t starts[kMaximumBuckets] = {};

  float2* rows = nullptr;          // [heads, T]: lse * log2(e) (+inf where no key is seen) and sum(o * do)
  float* bias_partials = nullptr;  // [query tiles, heads, buckets]
  int bias_tiles = 0;

  // The gradient in one pass; null: not used.
  int32_t* turns = nullptr;    // [heads, query tile slots]: key tiles that have added to dq_sums
  int2* key_tiles = nullptr;   // [key tile slots]: sequence and tile, in the order of work; -1: none. One
                               // sequence's tiles are in order, which needs no list
  float* dq_sums = nullptr;    // [heads, sum_slots, 8 * padded head_dim]
  float4* dkv_sums = nullptr;  // [key tiles, 2, ..]: of tiles that blocks share, as their threads hold them
  int64_t dkv_bytes = 0;
  int tile_keys = 0;  // of the kernel that is launched
  int tile_queries = 0;
  int query_tiles = 0;       // slots
  int sum_slots = 0;         // of kGradientSumRows queries
  bool pairs_apart = false;  // a slot is [column / 8, 2, lane], else [column / 8, lane, 2]
  bool rounds_dq = false;    // the gradient's kernel writes dq itself
  bool pairs_tiles = false;  // a sequence's last two key tiles share the blocks of one
  int batch_sequences = 1;   // whose tiles are worked on together
  int tile_blocks = 1;       // that share a key tile and add up in dkv_sums, taking turns

  uint32_t keep_limit = 0;  // backend/dropout_mask.h
  float kept_scale = 1;
};

// One tile of one sequence and head.
struct Work {
  int head = 0;
  int slot = 0;
  int query_row = 0;  // the sequence's rows
  int queries = 0;
  int key_row = 0;
  int keys = 0;
  int shift = 0;  // keys - queries: query i stands at i + shift
  int first = 0;  // of the tile, within the sequence
};

// The last sequence whose slots start at or before `slot`, found 32 candidates at a time by each warp.
__device__ inline int find_sequence(const int32_t* offsets, int sequences, int slot, int rows) {
  int lane = static_cast<int>(threadIdx.x & 31);
  int low = 0;
  int high = sequences;
  while (high - low > 1) {
    int step = (high - low + 31) / 32;
    int probe = low + lane * step;
    bool before = probe < high && offsets[probe] / rows + probe <= slot;
    int count = __popc(__ballot_sync(0xffffffffU, before));
    low += (count - 1) * step;
    high = min(high, low + step);
  }
  return low;
}

// False: the slot is empty. Queries own the tile if `by_query`, else keys.
__device__ inline bool find_work(const AttentionArguments& a, int slot, int rows, bool by_query, Work& work) {
  const int32_t* offsets = by_query ? a.p.q_offsets : a.p.kv_offsets;
  int sequence = find_sequence(offsets, static_cast<int>(a.p.sequences), slot, rows);
  work.slot = slot;
  work.query_row = a.p.q_offsets[sequence];
  work.queries = a.p.q_offsets[sequence + 1] - work.query_row;
  work.key_row = a.p.kv_offsets[sequence];
  work.keys = a.p.kv_offsets[sequence + 1] - work.key_row;
  work.shift = work.keys - work.queries;
  work.first = (slot - offsets[sequence] / rows - sequence) * rows;
  return work.first < (by_query ? work.queries : work.keys);
}

// The blocks of one query tile's heads follow each other (they share keys). The last tiles of causal
// sequences have the most keys and start first, so that short ones fill the gaps at the end.
__device__ inline bool find_query_work(const AttentionArguments& a, int rows, Work& work) {
  int slots = static_cast<int>(tile_slots(a.p.queries, a.p.sequences, rows));
  work.head = static_cast<int>(blockIdx.x) % a.p.heads;
  int slot = static_cast<int>(blockIdx.x) / a.p.heads;
  return find_work(a, a.p.causal ? slots - 1 - slot : slot, rows, true, work);
}

// `head` is a kv head here. The first keys of causal sequences have the most queries.
__device__ inline bool find_key_work(const AttentionArguments& a, int rows, int block, Work& work) {
  work.head = block % a.p.kv_heads;
  return find_work(a, block / a.p.kv_heads, rows, false, work);
}

struct Range {
  int first = 0;
  int last = 0;  // exclusive
};

// Keys that any of the tile's `rows` queries sees.
__device__ inline Range keys_of_queries(const AttentionArguments& a, const Work& work, int rows) {
  int last_query = min(work.first + rows, work.queries) - 1;
  int first = max(0, work.first + work.shift + a.lowest);
  if (a.p.random != nullptr) {
    first -= first % kMaskGroup;  // dropout is decided for whole groups of keys
  }
  return {first, min(work.keys, last_query + work.shift + a.highest + 1)};
}

// Queries that see any of the tile's `rows` keys.
__device__ inline Range queries_of_keys(const AttentionArguments& a, const Work& work, int rows) {
  int last_key = min(work.first + rows, work.keys) - 1;
  return {max(0, work.first - work.shift - a.highest),
          min(work.queries, last_key - work.shift - a.lowest + 1)};
}

// T5's bucket of a relative position (key minus query).
__device__ inline int bucket_of(const AttentionArguments& a, int relative) {
  bool later = a.p.bidirectional_buckets && relative > 0;
  int distance = later ? relative : max(-relative, 0);
  int bucket = 0;
  for (int b = 1; b < a.side_buckets; ++b) {
    bucket += static_cast<int>(distance >= a.starts[b]);
  }
  return bucket + (later ? a.side_buckets : 0);
}

template <typename T>
__device__ inline float as_float(T value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else {
    return __bfloat162float(value);
  }
}

template <typename T>
__device__ inline T from_float(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else {
    return __float2bfloat16_rn(value);
  }
}

// One head's bias by relative position, as far as blocks of scores reach that are not all beyond
// max_distance, where the bias stays the same: max_distance and the extent of the largest block.
inline constexpr int kLargestScoreBlock = 160;
inline __host__ __device__ int bias_reach(const AttentionParameters& p) {
  return p.max_distance + kLargestScoreBlock;
}
inline __host__ __device__ int bias_table_entries(const AttentionParameters& p) {
  return p.bias == nullptr ? 0 : 2 * bias_reach(p) + 1;
}
inline __host__ __device__ int bias_table_bytes(const AttentionParameters& p) {
  return (bias_table_entries(p) * 4 + 15) / 16 * 16;
}

// table[relative + bias_reach] = bias * log2(e); the block has to synchronise afterwards.
template <typename T>
__device__ inline void fill_bias_table(const AttentionArguments& a, int head, float* table) {
  for (int i = static_cast<int>(threadIdx.x); i < bias_table_entries(a.p);
       i += static_cast<int>(blockDim.x)) {
    int bucket = bucket_of(a, i - bias_reach(a.p));
    table[i] = kLog2E * as_float(static_cast<const T*>(a.p.bias)[bucket * a.p.heads + head]);
  }
}

}  // namespace snug::cuda
