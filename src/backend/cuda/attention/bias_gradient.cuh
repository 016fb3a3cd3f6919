// The gradient of T5's relative bias within a block: each thread sums its own dscores by bucket in its own
// column of shared memory, then the columns are added in order. No atomics, so that every run gives the same
// bits.
#pragma once

#include "backend/cuda/attention/softmax.cuh"

namespace snug::cuda {

template <int kThreads>
struct BiasGradient {
  float* sums = nullptr;         // [buckets, kThreads]
  const int32_t* row = nullptr;  // [bias_table_entries]: bucket * kThreads

  static __host__ __device__ int bytes(const AttentionParameters& p) {
    return p.dbias == nullptr ? 0 : p.buckets * kThreads * 4 + bias_table_bytes(p);
  }

  // The block has to synchronise before the first `add`. `thread` counts from 0 to kThreads.
  __device__ void start(const AttentionArguments& a, unsigned char* memory, int thread) {
    sums = reinterpret_cast<float*>(memory);
    for (int b = 0; b < a.p.buckets; ++b) {
      sums[b * kThreads + thread] = 0;
    }
    auto* table = reinterpret_cast<int32_t*>(memory + a.p.buckets * kThreads * 4);
    for (int i = thread; i < bias_table_entries(a.p); i += kThreads) {
      table[i] = bucket_of(a, i - bias_reach(a.p)) * kThreads;
    }
    row = table;
  }

  // A warp's scores of 16 queries (rows) and 8 * kBlocks keys (columns), or the other way round. Far away,
  // all share a bucket; nearer, the lanes' parts of a diagonal are in few buckets, often in one.
  template <bool kRowsAreKeys, int kBlocks>
  __device__ void add(const AttentionArguments& a, const float (&dscores)[kBlocks][4],
                      const ScoreBlock& block, int thread) {
    constexpr int kColumnStep = kRowsAreKeys ? -1 : 1;
    int far = far_entry(a, block, kRowsAreKeys ? 8 * kBlocks : 16, kRowsAreKeys ? 16 : 8 * kBlocks);
    if (far >= 0) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kBlocks * 4; ++i) {
        sum += dscores[i / 4][i % 4];
      }
      sums[row[far] + thread] += sum;
      return;
    }
    const int32_t* middle = row + bias_reach(a.p) + block.first_key - block.query_position;
    const int32_t* mine = row + bias_reach(a.p) + first_relative_position<kRowsAreKeys>(block);
    int shared_row = -1;
    float shared_sum = 0;
#pragma unroll
    for (int d = -1; d < kBlocks; ++d) {
      float2 both = diagonal<kBlocks>(dscores, d);
      int lowest = middle[8 * kColumnStep * d - 7];
      if (lowest != middle[8 * kColumnStep * d + 7]) {
        add_pair(mine[8 * kColumnStep * d] + thread, mine[kColumnStep * (8 * d + 1)] + thread, both);
        continue;
      }
      if (lowest != shared_row && shared_row >= 0) {
        sums[shared_row + thread] += shared_sum;
        shared_sum = 0;
      }
      shared_row = lowest;
      shared_sum += both.x + both.y;
    }
    if (shared_row >= 0) {
      sums[shared_row + thread] += shared_sum;
    }
  }

  // The lane's scores 8 * d and 8 * d + 1 columns from its first one: of column block d in its upper row, and
  // of the next block in its lower row. Over all lanes the relative positions are 8 * d - 7 to 8 * d + 7 from
  // the block's corner, the other way round if rows are keys.
  template <int kBlocks>
  static __device__ float2 diagonal(const float (&dscores)[kBlocks][4], int d) {
    float2 both = make_float2(0, 0);
    if (d >= 0) {
      both = make_float2(dscores[d][0], dscores[d][1]);
    }
    if (d + 1 < kBlocks) {
      both = make_float2(both.x + dscores[d + 1][2], both.y + dscores[d + 1][3]);
    }
    return both;
  }

  // Both places are read before either is written: waiting for one after the other would take twice as long.
  __device__ void add_pair(int first, int second, float2 both) {
    float at_first = sums[first];
    float at_second = sums[second];
    bool same = first == second;
    sums[first] = at_first + (same ? both.x + both.y : both.x);
    if (!same) {
      sums[second] = at_second + both.y;
    }
  }

  __device__ void add_one(const AttentionArguments& a, float dscore, int relative, int thread) {
    int reach = bias_reach(a.p);
    sums[row[min(max(relative, -reach), reach) + reach] + thread] += dscore;
  }

  // to[buckets] = the block's sums; after the block has synchronised.
  __device__ void finish(const AttentionArguments& a, float* to, int thread) {
    int lane = thread & 31;
    for (int b = thread >> 5; b < a.p.buckets; b += kThreads / 32) {
      float sum = 0;
      for (int i = lane; i < kThreads; i += 32) {
        sum += sums[b * kThreads + i];
      }
      for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, step);
      }
      if (lane == 0) {
        to[b] = sum;
      }
    }
  }
};

// Where the partial sums of one tile and head belong.
__device__ inline float* bias_partial(const AttentionArguments& a, int slot, int head) {
  return a.bias_partials + (static_cast<int64_t>(slot) * a.p.heads + head) * a.p.buckets;
}

// For a slot without a tile.
__device__ inline void clear_bias_partial(const AttentionArguments& a, int slot, int head) {
  if (a.p.dbias != nullptr && static_cast<int>(threadIdx.x) < a.p.buckets) {
    bias_partial(a, slot, head)[threadIdx.x] = 0;
  }
}

}  // namespace snug::cuda
