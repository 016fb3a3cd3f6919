// The gradient of T5's relative bias within a block: each thread sums its own dscores by bucket in its own
// column of shared memory, then the columns are added in order. No atomics, so that every run gives the same
// bits.
#pragma once

#include "backend/cuda/attention_softmax.cuh"

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

  // A warp's scores of 16 queries (rows) and 8 * kBlocks keys (columns). Far away, all share a bucket.
  template <int kBlocks>
  __device__ void add(const AttentionArguments& a, const float (&dscores)[kBlocks][4],
                      const ScoreBlock& block, int thread) {
    int far = far_entry(a, block, 16, 8 * kBlocks);
    if (far >= 0) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kBlocks * 4; ++i) {
        sum += dscores[i / 4][i % 4];
      }
      sums[row[far] + thread] += sum;
      return;
    }
    const int32_t* mine = row + bias_reach(a.p) + first_relative_position<false>(block);
#pragma unroll
    for (int i = 0; i < kBlocks * 4; ++i) {
      sums[mine[relative_position<false>(0, i / 4, i % 4)] + thread] += dscores[i / 4][i % 4];
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

// Where the partial sums of one query tile and head belong.
__device__ inline float* bias_partial(const AttentionArguments& a, const Work& work) {
  return a.bias_partials + (static_cast<int64_t>(work.slot) * a.p.heads + work.head) * a.p.buckets;
}

// For a slot without queries.
__device__ inline void clear_bias_partial(const AttentionArguments& a, const Work& work) {
  if (a.p.dbias != nullptr && static_cast<int>(threadIdx.x) < a.p.buckets) {
    bias_partial(a, work)[threadIdx.x] = 0;
  }
}

}  // namespace snug::cuda
