// The arithmetic between attention's two products, on the sums a warp holds in registers: bias and mask, and
// the running softmax. The lane's rows and columns are those of multiply_add (tiles.cuh); Hopper's
// products lay out their sums alike.
#pragma once

#include "backend/cuda/attention/work.cuh"
#include "backend/cuda/instructions/numbers.cuh"

namespace snug::cuda {

// Where a block of scores stands: of row 0 and column 0, one of which is a key and the other a query.
struct ScoreBlock {
  int first_key = 0;
  int query_position = 0;
  int keys = 0;  // that the sequence has
};

// Four lanes hold a row.
__device__ inline float row_maximum(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}
__device__ inline float row_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

// Whether some query of [position, position + queries) does not see some key of [first_key, first_key +
// keys).
__device__ inline bool needs_mask(const AttentionArguments& a, const ScoreBlock& block, int queries,
                                  int keys) {
  int last_key = block.first_key + keys - 1;
  return last_key >= block.keys || last_key - block.query_position > a.highest ||
         block.first_key - (block.query_position + queries - 1) < a.lowest;
}

// Whether no query of these sees any of the keys.
__device__ inline bool is_hidden(const AttentionArguments& a, const ScoreBlock& block, int queries,
                                 int keys) {
  return block.first_key - (block.query_position + queries - 1) > a.highest ||
         block.first_key + keys - 1 - block.query_position < a.lowest;
}

// Key minus query position of the lane's element e of column block n and row tile r, less that of element 0.
template <bool kRowsAreKeys>
__device__ constexpr int relative_position(int r, int n, int e) {
  int column = 8 * n + (e & 1);
  int row = 16 * r + 8 * (e >> 1);
  return kRowsAreKeys ? row - column : column - row;
}

template <bool kRowsAreKeys>
__device__ inline int first_relative_position(const ScoreBlock& block) {
  int lane = static_cast<int>(threadIdx.x & 31);
  int column = 2 * (lane & 3);
  int row = lane >> 2;
  int relative = block.first_key - block.query_position;
  return kRowsAreKeys ? relative + row - column : relative + column - row;
}

// If all pairs of the block are at least max_distance apart, on one side: that side's end of the bias tables,
// which holds for all of them; else -1.
__device__ inline int far_entry(const AttentionArguments& a, const ScoreBlock& block, int queries, int keys) {
  if (block.first_key - (block.query_position + queries - 1) >= a.p.max_distance) {
    return 2 * bias_reach(a.p);
  }
  return block.first_key + keys - 1 - block.query_position <= -a.p.max_distance ? 0 : -1;
}

// score = score * scale + bias, in powers of two.
template <bool kRowsAreKeys, int kRowTiles, int kBlocks>
__device__ inline void add_bias(const AttentionArguments& a, float (&scores)[kRowTiles][kBlocks][4],
                                const ScoreBlock& block, const float* bias) {
  constexpr int kRows = 16 * kRowTiles;
  constexpr int kColumns = 8 * kBlocks;
  static_assert(kRows + kColumns <= kLargestScoreBlock);
  int far = far_entry(a, block, kRowsAreKeys ? kColumns : kRows, kRowsAreKeys ? kRows : kColumns);
  if (far >= 0) {
    float add = bias[far];
#pragma unroll
    for (int i = 0; i < kRowTiles * kBlocks * 4; ++i) {
      float& score = scores[i / (kBlocks * 4)][i / 4 % kBlocks][i % 4];
      score = fmaf(score, a.scale_log2, add);
    }
    return;
  }
  const float* mine = bias + bias_reach(a.p) + first_relative_position<kRowsAreKeys>(block);
#pragma unroll
  for (int i = 0; i < kRowTiles * kBlocks * 4; ++i) {
    float& score = scores[i / (kBlocks * 4)][i / 4 % kBlocks][i % 4];
    score = fmaf(score, a.scale_log2,
                 mine[relative_position<kRowsAreKeys>(i / (kBlocks * 4), i / 4 % kBlocks, i % 4)]);
  }
}

// Adds the bias and puts -inf where the query does not see the key. Returns what a score is to be multiplied
// with to be a power of two: the bias needs it done here.
template <bool kRowsAreKeys, bool kMayHaveBias, int kRowTiles, int kBlocks>
__device__ inline float finish_scores(const AttentionArguments& a, float (&scores)[kRowTiles][kBlocks][4],
                                      const ScoreBlock& block, const float* bias) {
  if (kMayHaveBias && a.p.bias != nullptr) {
    add_bias<kRowsAreKeys, kRowTiles, kBlocks>(a, scores, block, bias);
  }
  constexpr int kRows = 16 * kRowTiles;
  constexpr int kColumns = 8 * kBlocks;
  if (needs_mask(a, block, kRowsAreKeys ? kColumns : kRows, kRowsAreKeys ? kRows : kColumns)) {
    int relative = first_relative_position<kRowsAreKeys>(block);
    int lane = static_cast<int>(threadIdx.x & 31);
    int keys_left = block.keys - block.first_key - (kRowsAreKeys ? lane >> 2 : 2 * (lane & 3));
#pragma unroll
    for (int i = 0; i < kRowTiles * kBlocks * 4; ++i) {
      float& score = scores[i / (kBlocks * 4)][i / 4 % kBlocks][i % 4];
      int position = relative + relative_position<kRowsAreKeys>(i / (kBlocks * 4), i / 4 % kBlocks, i % 4);
      int key = kRowsAreKeys ? 16 * (i / (kBlocks * 4)) + 8 * (i % 4 >> 1) : 8 * (i / 4 % kBlocks) + (i & 1);
      bool seen = key < keys_left && position >= a.lowest && position <= a.highest;
      score = seen ? score : -INFINITY;
    }
  }
  return kMayHaveBias && a.p.bias != nullptr ? 1.0F : a.scale_log2;
}

// scores become 2^(factor * score - maximum); maximum and sum of both rows advance, and correction is what
// earlier outputs are to be multiplied with. `maximum` is factor * score, -inf as long as no key was seen.
template <int kBlocks>
__device__ inline void advance_softmax(float (&scores)[kBlocks][4], float (&maximum)[2], float (&sum)[2],
                                       float (&correction)[2], float factor) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    largest = fmaxf(maximum[half], row_maximum(largest) * factor);
    float subtract = largest == -INFINITY ? 0.0F : largest;
    correction[half] = power_of_two(maximum[half] - subtract);
    maximum[half] = largest;
    float added = 0;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        scores[n][e] = power_of_two(fmaf(scores[n][e], factor, -subtract));
        added += scores[n][e];
      }
    }
    sum[half] = sum[half] * correction[half] + added;
  }
}

// After the last key: what outputs are to be multiplied with, and the log-sum-exp, for both rows.
__device__ inline void finish_softmax(const float (&maximum)[2], const float (&sum)[2], float2& factors,
                                      float2& lse) {
  float first = row_sum(sum[0]);
  float second = row_sum(sum[1]);
  factors = {first == 0.0F ? 0.0F : 1.0F / first, second == 0.0F ? 0.0F : 1.0F / second};
  lse = {first == 0.0F ? -INFINITY : (maximum[0] + log2f(first)) * kLn2,
         second == 0.0F ? -INFINITY : (maximum[1] + log2f(second)) * kLn2};
}

}  // namespace snug::cuda
