// The arithmetic of attention's gradients on the scores a warp holds in registers, queries as rows or as
// columns. Each query brings its log-sum-exp, in powers of two, and sum(o * do): AttentionArguments::rows.
#pragma once

#include "backend/cuda/attention/softmax.cuh"
#include "backend/cuda/attention/tiles.cuh"

namespace snug::cuda {

// A lane's two rows: their log-sum-exp in powers of two and sum(o * do). Rows beyond the last have no weight.
struct LaneRows {
  float2 row[2];

  __device__ LaneRows(const AttentionArguments& a, const Work& work, int first) {
    int lane = static_cast<int>(threadIdx.x & 31);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int query = work.first + first + (lane >> 2) + 8 * half;
      row[half] = query < work.queries ? a.rows[work.head * a.p.queries + work.query_row + query]
                                       : make_float2(INFINITY, 0);
    }
  }
};

// Weights in place of the scores [16, keys].
template <int kBlocks>
__device__ inline void make_weights_of_rows(Sums<1, kBlocks>& scores, const LaneRows& rows, float factor) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      scores[0][n][e] = power_of_two(fmaf(scores[0][n][e], factor, -rows.row[e >> 1].x));
    }
  }
}

// dscores in place of the weights.
template <int kBlocks>
__device__ inline void make_dscores_of_rows(Sums<1, kBlocks>& weights, const Sums<1, kBlocks>& dweights,
                                            const LaneRows& rows) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      weights[0][n][e] *= dweights[0][n][e] - rows.row[e >> 1].y;
    }
  }
}

// p^T in place of the scores.
template <int kRowTiles, int kBlocks>
__device__ inline void make_weights_of_columns(float (&scores)[kRowTiles][kBlocks][4], const float2* rows,
                                               float factor) {
  int column = 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
  for (int i = 0; i < kRowTiles * kBlocks * 4; ++i) {
    float& score = scores[i / 4 % kRowTiles][i / (4 * kRowTiles)][i % 4];
    score = power_of_two(fmaf(score, factor, -rows[8 * (i / (4 * kRowTiles)) + column + (i & 1)].x));
  }
}

// dscores^T in place of dweights^T.
template <int kRowTiles, int kBlocks>
__device__ inline void make_dscores_of_columns(float (&dweights)[kRowTiles][kBlocks][4],
                                               const float (&weights)[kRowTiles][kBlocks][4],
                                               const float2* rows) {
  int column = 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
  for (int i = 0; i < kRowTiles * kBlocks * 4; ++i) {
    int r = i / 4 % kRowTiles;
    int n = i / (4 * kRowTiles);
    dweights[r][n][i % 4] = weights[r][n][i % 4] * (dweights[r][n][i % 4] - rows[8 * n + column + (i & 1)].y);
  }
}

}  // namespace snug::cuda
