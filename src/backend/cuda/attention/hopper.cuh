// Hopper's own ways: products by warpgroups of four warps (wgmma) that read shared memory themselves, and
// barriers between the warps that fetch tiles and those that use them. Needs code built for sm_90a; elsewhere
// the kernels are empty and are not chosen.
#pragma once

#include "backend/cuda/attention/tiles.cuh"
#include "backend/cuda/instructions/copy_engine.cuh"
#include "backend/cuda/instructions/group_products.cuh"

namespace snug::cuda {

// One warpgroup fetches tiles, two work on them.
inline constexpr int kGroupThreads = 128;
inline constexpr int kWorkingGroups = 2;
inline constexpr int kHopperThreads = kGroupThreads * (1 + kWorkingGroups);
// Registers a thread after the fetching warps have given up theirs; together no more than the block was
// launched with, 168 for each thread, else the working groups wait for ever.
template <int kFetching, int kWorking>
struct RegisterSplit {
  static constexpr int kFetchingRegisters = kFetching;
  static constexpr int kWorkingRegisters = kWorking;
  static_assert(kFetching + kWorkingGroups * kWorking <= 168 * (1 + kWorkingGroups));
};

// A kernel that was not built for sm_90a says so by its launch bounds: hopper_is_built reads them.
#if defined(SNUG_HOPPER) || !defined(__CUDA_ARCH__)
#define SNUG_HOPPER_BOUNDS __launch_bounds__(snug::cuda::kHopperThreads, 1)
#else
#define SNUG_HOPPER_BOUNDS __launch_bounds__(32, 1)
#endif

template <typename Kernel>
bool hopper_is_built(Kernel kernel) {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.maxThreadsPerBlock >= kHopperThreads;
}

// Returns launch(a number of the arguments' dtype, std::integral_constant of the padded head size, that of
// whether weights are dropped); false for heads that are too large.
template <typename Launch>
bool launch_on_hopper(const AttentionArguments& a, const Launch& launch) {
  if (a.p.head_dim > 128) {
    return false;
  }
  auto launch_for_head = [&](auto number) {
    std::integral_constant<int, 64> narrow;
    std::integral_constant<int, 128> wide;
    if (a.p.random != nullptr) {
      return a.p.head_dim <= kMostDroppedColumns && launch(number, narrow, std::true_type{});
    }
    return a.p.head_dim <= 64 ? launch(number, narrow, std::false_type{})
                              : launch(number, wide, std::false_type{});
  };
  return a.p.number == AttentionNumber::f16 ? launch_for_head(__half{}) : launch_for_head(__nv_bfloat16{});
}

#ifdef SNUG_HOPPER

// Until the phase of this parity is over: it has to be the present one or the one before.
__device__ inline void wait_barrier(uint32_t barrier, int parity) {
  while (!has_completed(barrier, parity)) {
  }
}
// Barrier 0 is __syncthreads; one of its own for each working group.
__device__ inline void sync_group(int group) {
  wait_at_barrier(group + 1, kGroupThreads);
}
// All working groups.
__device__ inline void sync_working() {
  wait_at_barrier(kWorkingGroups + 1, kGroupThreads * kWorkingGroups);
}

// Two working groups that ask for their products in turns, the first group first: what one does between its
// products then meets the other's. Barriers of both groups; one waits at its own, the other arrives there.
inline constexpr int kTurnBarriers = kWorkingGroups + 2;
__device__ inline void wait_products_turn(int group) {
  wait_at_barrier(kTurnBarriers + group, kGroupThreads * kWorkingGroups);
}
__device__ inline void give_products_turn(int to_group) {
  arrive_at_barrier(kTurnBarriers + to_group, kGroupThreads * kWorkingGroups);
}

__device__ inline void sync_cluster() {
  arrive_cluster();
  wait_cluster();
}
// Left operands [16, 16 * kSteps] of a warp to rows [row, row + 16) of a tile.
template <int kRows, int kSteps>
__device__ inline void store_lefts(const uint32_t (&a)[kSteps][4], uint32_t tile, int row) {
  int lane = static_cast<int>(threadIdx.x & 31);
  uint32_t first = tile + chunk_offset<kRows>(row + (lane & 15), lane >> 4);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    // chunk_offset of two chunks further, as tiles begin at multiples of 128 bytes
    uint32_t to =
        (first ^ static_cast<uint32_t>((step & 3) << 5)) + static_cast<uint32_t>((step >> 2) * kRows * 128);
    store_matrices<4>(to, a[step]);
  }
}

// A ring of tiles: `full` completes when a tile is there, which `announcements` say, `empty` when all warps
// are done with it.
template <int kStages>
struct Ring {
  uint32_t full = 0;  // [kStages] barriers of 8 bytes; `empty` follows
  static constexpr int kBytes = kStages * 16;

  __device__ void start(uint32_t memory, int announcements = kGroupThreads) {
    full = memory;
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        start_barrier(full + 8 * i, announcements);
        start_barrier(full + 8 * (kStages + i), kWorkingGroups * 4);
      }
    }
  }
  __device__ uint32_t full_of(int tile) const { return full + 8 * (tile % kStages); }
  __device__ uint32_t empty_of(int tile) const { return full + 8 * (kStages + tile % kStages); }

  __device__ void wait_full(int tile) const { wait_barrier(full_of(tile), tile / kStages & 1); }
  // Once per warp, after its products and all of its lanes have read the tile.
  __device__ void release(int tile) const {
    __syncwarp();
    if ((threadIdx.x & 31) == 0) {
      arrive(empty_of(tile));
    }
  }
};

// The fetching warpgroup's side: copies are asynchronous, and a tile is announced when a later one has been
// asked for, or when there is nothing else to do.
struct Fetcher {
  uint32_t pending = 0;

  template <int kStages>
  __device__ void wait_room(const Ring<kStages>& ring, int tile) {
    int parity = (tile / kStages & 1) ^ 1;
    if (!has_completed(ring.empty_of(tile), parity)) {
      finish();
      wait_barrier(ring.empty_of(tile), parity);
    }
  }
  template <int kStages>
  __device__ void announce(const Ring<kStages>& ring, int tile) {
    commit_copies();
    if (pending != 0) {
      wait_copies<1>();
      publish_writes();
      arrive(pending);
    }
    pending = ring.full_of(tile);
  }
  __device__ void finish() {
    if (pending != 0) {
      wait_copies<0>();
      publish_writes();
      arrive(pending);
      pending = 0;
    }
  }
};

// Descriptors of operands in tiles laid out by chunk_offset. Bits 0-13: address / 16; 16-29 and 32-45:
// strides / 16; 62: 128-byte swizzle. Rows come in groups of 8, 1024 bytes apart. In a cluster, addresses
// have the block's rank above bit 18; as shared memory ends below that, `offset` may be added to the tile's
// own descriptor: one addition a product.
__device__ inline uint64_t describe(uint32_t tile, uint32_t offset, uint32_t panel_bytes) {
  uint32_t low = ((tile & 0x3ffffU) >> 4 | (panel_bytes >> 4) << 16) + (offset >> 4);
  constexpr uint32_t kHigh = 1024 >> 4 | 1U << 30;
  return static_cast<uint64_t>(kHigh) << 32 | low;
}
// Rows of the operand are rows of the tile, 16 columns from 16 * step deep.
template <int kRows>
__device__ inline uint64_t describe_rows(uint32_t tile, int step) {
  return describe(tile, static_cast<uint32_t>((step >> 2) * (kRows * 128) + (step & 3) * 32), 16);
}
// Columns of the operand are columns of the tile, 16 rows from 16 * step deep.
template <int kRows>
__device__ inline uint64_t describe_columns(uint32_t tile, int step) {
  return describe(tile, static_cast<uint32_t>(step * 2048), kRows * 128);
}

// Starts sums[64, 8 * kBlocks] = left[64, kDepth] right[8 * kBlocks, kDepth]^T. kLeftRows: of the whole left
// tile.
template <typename T, int kLeftRows, int kDepth, int kBlocks>
__device__ inline void start_product_of_rows(float (&sums)[1][kBlocks][4], uint32_t left, uint32_t right) {
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
    uint64_t a = describe_rows<kLeftRows>(left, step);
    uint64_t b = describe_rows<8 * kBlocks>(right, step);
    if (step == 0) {
      first_product_of_rows<T>(sums[0], a, b);
    } else {
      product_of_rows<T>(sums[0], a, b, 1);
    }
  }
  commit_products();
}

// Starts sums[64, 8 * kBlocks] += weights[64, 16 * kSteps] tile[16 * kSteps, 8 * kBlocks], or the part of it
// from 16 * kFirst to 16 * kLast deep.
template <typename T, int kFirst = 0, int kLast = -1, int kSteps, int kBlocks>
__device__ inline void start_weighted_rows(float (&sums)[1][kBlocks][4], const uint32_t (&weights)[kSteps][4],
                                           uint32_t tile) {
#pragma unroll
  for (int step = kFirst; step < (kLast < 0 ? kSteps : kLast); ++step) {
    product_with_columns<T>(sums[0], weights[step], describe_columns<16 * kSteps>(tile, step));
  }
  commit_products();
}

// Sums rounded to T, as left operands.
template <typename T, int kBlocks>
__device__ inline void pack_weights(uint32_t (&weights)[kBlocks / 2][4], const float (&sums)[1][kBlocks][4]) {
#pragma unroll
  for (int step = 0; step < kBlocks / 2; ++step) {
    as_left<T, kBlocks>(weights[step], sums[0], step);
  }
}

#endif  // SNUG_HOPPER

}  // namespace snug::cuda
