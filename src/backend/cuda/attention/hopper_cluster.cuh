// The end of a block of attention's gradient on Hopper (hopper_gradient.cu) that shares a tile of keys with
// others of its cluster: each has sums of dk and dv, which they add up through each other's shared memory.
#pragma once

#include "backend/cuda/attention/hopper_rounding.cuh"

namespace snug::cuda {

inline constexpr int kLargestCluster = 8;

#ifdef SNUG_HOPPER

// sums[matrix, key, column] of this block, for the others of the cluster; `row` is the warp's first key.
template <class Shape>
__device__ inline void publish(const GradientBlock<Shape>& block, const Sums<1, Shape::kHeadDim / 8>& sums,
                               int matrix, int row) {
  int lane = static_cast<int>(threadIdx.x & 31);
  auto* to = reinterpret_cast<float*>(block.shared) +
             (matrix * Shape::kKeys + row + lane / 4) * Shape::kPitch + 2 * (lane & 3);
#pragma unroll
  for (int n = 0; n < Shape::kHeadDim / 8; ++n) {
    *reinterpret_cast<float2*>(to + 8 * n) = make_float2(sums[0][n][0], sums[0][n][1]);
    *reinterpret_cast<float2*>(to + 8 * Shape::kPitch + 8 * n) = make_float2(sums[0][n][2], sums[0][n][3]);
  }
}

// One row of dk or dv: an item is a key and, in its lowest bit, the matrix.
template <typename T, class Shape>
__device__ inline void store_key_row(const GradientBlock<Shape>& block, int item, int column, float4 sum) {
  const AttentionArguments& a = block.a;
  bool is_dk = (item & 1) == 0;
  float factor = is_dk ? a.p.scale : 1.0F;
  int64_t row = block.work.key_row + block.work.first + (item >> 1);
  T* to = static_cast<T*>(is_dk ? a.p.dk : a.p.dv) + row * a.p.dkv_stride +
          static_cast<int64_t>(block.work.head) * a.p.head_dim + column;
  reinterpret_cast<uint32_t*>(to)[0] = pack<T>(sum.x * factor, sum.y * factor);
  reinterpret_cast<uint32_t*>(to)[1] = pack<T>(sum.z * factor, sum.w * factor);
}

// dk and dv = the sums of the blocks that share the tile. They share its rows; a warp takes some at a time,
// so that the reads of all their parts are on the way together. A row's parts are added in the order of the
// blocks, from the one on that adds them, so that not all read the same block's memory at once.
template <typename T, class Shape>
__device__ inline void add_cluster(const GradientBlock<Shape>& block, int warp) {
  constexpr int kRows = 4;
  constexpr int kWarps = kWorkingGroups * kGroupThreads / 32;
  int lane = static_cast<int>(threadIdx.x & 31);
  int parts = block.parts;
  int first_rank = cluster_rank() - block.part;
  int items = 2 * min(Shape::kKeys, block.work.keys - block.work.first);
  if (4 * lane >= block.a.p.head_dim) {
    return;
  }
  for (int first = block.part * kWarps + warp; first < items; first += kRows * parts * kWarps) {
    float4 sums[kRows][kLargestCluster];
#pragma unroll
    for (int i = 0; i < kRows * kLargestCluster; ++i) {
      int item = first + i / kLargestCluster * parts * kWarps;
      int part = block.part + i % kLargestCluster;
      if (item < items && i % kLargestCluster < parts) {
        sums[i / kLargestCluster][i % kLargestCluster] = read_cluster(
            block.sums_to_publish(item, 4 * lane), first_rank + (part < parts ? part : part - parts));
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      int item = first + i * parts * kWarps;
      float4 sum = sums[i][0];
#pragma unroll
      for (int n = 1; n < kLargestCluster; ++n) {
        if (n < parts) {
          const float4& other = sums[i][n];
          sum = make_float4(sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w);
        }
      }
      if (item < items) {
        store_key_row<T>(block, item, 4 * lane, sum);
      }
    }
  }
}

// dk and dv of a tile that blocks share, then dq of the queries that no later key tile adds to: its parts may
// still be waiting for their turn.
template <typename T, class Shape>
__device__ inline void finish_cluster(const GradientBlock<Shape>& block,
                                      const Sums<1, Shape::kHeadDim / 8>& dk,
                                      const Sums<1, Shape::kHeadDim / 8>& dv, int warp) {
  sync_working();  // nobody reads the tiles any more
  publish(block, dk, 0, warp * 16);
  publish(block, dv, 1, warp * 16);
  arrive_cluster();
  wait_cluster();
  if (block.a.p.dk != nullptr) {
    add_cluster<T>(block, warp);
  }
  arrive_cluster();
  if (block.a.rounds_dq) {
    wait_for_block();  // all parts of dq have been added
    round_dq<T>(block, warp);
  }
  wait_cluster();  // the other blocks have read this one's sums
}

#endif  // SNUG_HOPPER

}  // namespace snug::cuda
