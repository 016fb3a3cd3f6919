// The end of a block of attention's gradient on Hopper (hopper_gradient.cu): dq of the queries that no later
// key tile adds to.
#pragma once

#include "backend/cuda/attention/hopper_gradient.cuh"

namespace snug::cuda {

#ifdef SNUG_HOPPER

// Some slots of dq whose sums are complete, for a warp to round: so many that their bytes are on the way
// together.
template <typename T, class Shape>
struct FinishedSlots {
  static constexpr int kSlots = 4;
  float2 sums[kSlots][Shape::kHeadDim / 8];
  T* rows[kSlots];

  __device__ void load(const GradientBlock<Shape>& block, int i, int step, int slot) {
    const AttentionArguments& a = block.a;
    int lane = static_cast<int>(threadIdx.x & 31);
    int first = block.tile(step) * Shape::kQueries + slot * kGradientSumRows;
    int query = first + lane / 4;
    rows[i] = query < block.work.queries
                  ? static_cast<T*>(a.p.dq) + (block.work.query_row + query) * a.p.dq_stride +
                        static_cast<int64_t>(block.head(step)) * a.p.head_dim
                  : nullptr;
    if (first < block.work.queries) {
      auto* from = reinterpret_cast<const float2*>(block.sums_from(block.head(step), first)) + lane;
#pragma unroll
      for (int n = 0; n < Shape::kHeadDim / 8; ++n) {
        sums[i][n] = __ldcg(from + n * 32);  // the copy engine's, from the L2 cache
      }
    }
  }
};

// The query tiles that no later key tile adds to, the last of the walk: dq = scale * sums, rounded. All of
// the block's parts of dq have been added.
template <typename T, class Shape>
__device__ inline void round_dq(const GradientBlock<Shape>& block, int warp) {
  const AttentionArguments& a = block.a;
  if (block.work.first == 0) {
    return;  // dq of those went straight to its place
  }
  using Slots = FinishedSlots<T, Shape>;
  constexpr int kWarps = kWorkingGroups * kGroupThreads / 32;
  constexpr int kTileSlots = Shape::kQueries / kGradientSumRows;
  int first_step = block.first_finished();
  int items = (block.steps - first_step) * kTileSlots;
  for (int first_item = warp; first_item < items; first_item += Slots::kSlots * kWarps) {
    Slots finished;
#pragma unroll
    for (int i = 0; i < Slots::kSlots; ++i) {
      int item = first_item + i * kWarps;
      if (item < items) {
        finished.load(block, i, first_step + item / kTileSlots, item % kTileSlots);
      }
    }
#pragma unroll
    for (int i = 0; i < Slots::kSlots; ++i) {
      if (first_item + i * kWarps < items) {
        store_query_slot<T>(a, finished.sums[i], finished.rows[i], a.p.scale);
      }
    }
  }
}

#endif  // SNUG_HOPPER

}  // namespace snug::cuda
