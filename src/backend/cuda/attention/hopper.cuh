// Hopper's own ways: products by warpgroups of four warps (wgmma) that read shared memory themselves, and
// barriers between the warps that fetch tiles and those that use them. Needs code built for sm_90a; elsewhere
// the kernels are empty and are not chosen.
#pragma once

#include "backend/cuda/attention/tiles.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SNUG_HOPPER 1
#endif

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

__device__ inline void start_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals));
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
__device__ inline bool has_completed(uint32_t barrier, int parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// Until the phase of this parity is over: it has to be the present one or the one before.
__device__ inline void wait_barrier(uint32_t barrier, int parity) {
  while (!has_completed(barrier, parity)) {
  }
}
// Ordinary writes to shared memory become visible to wgmma.
__device__ inline void publish_writes() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
// Barrier 0 is __syncthreads; one of its own for each working group.
__device__ inline void sync_group(int group) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(group + 1), "n"(kGroupThreads) : "memory");
}
// All working groups.
__device__ inline void sync_working() {
  asm volatile("bar.sync %0, %1;\n" ::"n"(kWorkingGroups + 1), "n"(kGroupThreads * kWorkingGroups)
               : "memory");
}

// Two working groups that ask for their products in turns, the first group first: what one does between its
// products then meets the other's. Barriers of both groups; one waits at its own, the other arrives there.
inline constexpr int kTurnBarriers = kWorkingGroups + 2;
__device__ inline void wait_products_turn(int group) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(kTurnBarriers + group), "n"(kGroupThreads * kWorkingGroups)
               : "memory");
}
__device__ inline void give_products_turn(int to_group) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(kTurnBarriers + to_group), "n"(kGroupThreads * kWorkingGroups)
               : "memory");
}

// Blocks that share one piece of work, and can read each other's shared memory.
__device__ inline int cluster_size() {
  int size;
  asm("mov.u32 %0, %%cluster_nctaid.x;\n" : "=r"(size));
  return size;
}
__device__ inline int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}
// All threads of all blocks of the cluster; what they wrote before arriving is visible after waiting.
__device__ inline void arrive_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}
__device__ inline void wait_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
__device__ inline void sync_cluster() {
  arrive_cluster();
  wait_cluster();
}
__device__ inline float4 read_cluster(uint32_t address, int rank) {
  float4 value;
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}\n"
      : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
      : "r"(address), "r"(rank)
      : "memory");
  return value;
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
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(to),
                 "r"(a[step][0]), "r"(a[step][1]), "r"(a[step][2]), "r"(a[step][3])
                 : "memory");
  }
}

__device__ inline void sync_block() {
  asm volatile("bar.sync 0;\n" ::: "memory");
}

template <int kRegisters>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
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

__device__ inline void fence_products() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
template <int kPending>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}
// Keeps the compiler from reading sums before the wait above.
template <int kBlocks>
__device__ inline void settle(float (&sums)[1][kBlocks][4]) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    asm volatile(""
                 : "+f"(sums[0][n][0]), "+f"(sums[0][n][1]), "+f"(sums[0][n][2]),
                   "+f"(sums[0][n][3])::"memory");
  }
}

#define SNUG_SUMS1(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define SNUG_SUMS4(d, n) SNUG_SUMS1(d, n), SNUG_SUMS1(d, n + 1), SNUG_SUMS1(d, n + 2), SNUG_SUMS1(d, n + 3)
#define SNUG_SUMS8(d, n) SNUG_SUMS4(d, n), SNUG_SUMS4(d, n + 4)
#define SNUG_NAMES32                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SNUG_NAMES64                                                                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// d[64, 64] (+)= a[64, 16] b[64, 16]^T, both in shared memory; a warp holds 16 rows of d as multiply_add
// does.
#define SNUG_PRODUCT_OF_ROWS64(type)                                                \
  asm volatile(                                                                     \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" SNUG_NAMES32 \
      "}, %32, %33, p, 1, 1, 0, 0;\n}\n"                                            \
      : SNUG_SUMS8(d, 0)                                                            \
      : "l"(a), "l"(b), "r"(add))
template <typename T>
__device__ inline void product_of_rows(float (&d)[8][4], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_PRODUCT_OF_ROWS64("f16");
  } else {
    SNUG_PRODUCT_OF_ROWS64("bf16");
  }
}
#undef SNUG_PRODUCT_OF_ROWS64

// d[64, 64] (+)= a[16, 64]^T b[16, 64], both in shared memory.
#define SNUG_PRODUCT_OF_COLUMNS64(type)                                             \
  asm volatile(                                                                     \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" SNUG_NAMES32 \
      "}, %32, %33, p, 1, 1, 1, 1;\n}\n"                                            \
      : SNUG_SUMS8(d, 0)                                                            \
      : "l"(a), "l"(b), "r"(add))
template <typename T>
__device__ inline void product_of_columns(float (&d)[8][4], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_PRODUCT_OF_COLUMNS64("f16");
  } else {
    SNUG_PRODUCT_OF_COLUMNS64("bf16");
  }
}
#undef SNUG_PRODUCT_OF_COLUMNS64

// d[64, 64] += a[64, 16] b[16, 64], a in registers, b in shared memory.
#define SNUG_PRODUCT_WITH_COLUMNS64(type)                                                    \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" SNUG_NAMES32 \
               "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"                                 \
               : SNUG_SUMS8(d, 0)                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <typename T>
__device__ inline void product_with_columns(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_PRODUCT_WITH_COLUMNS64("f16");
  } else {
    SNUG_PRODUCT_WITH_COLUMNS64("bf16");
  }
}
#undef SNUG_PRODUCT_WITH_COLUMNS64

// d[64, 128] (+)= a[64, 16] b[128, 16]^T, both in shared memory; a warp holds 16 rows of d as multiply_add
// does.
#define SNUG_PRODUCT_OF_ROWS128(type)                                                \
  asm volatile(                                                                      \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                   \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SNUG_NAMES64 \
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"                                             \
      : SNUG_SUMS8(d, 0), SNUG_SUMS8(d, 8)                                           \
      : "l"(a), "l"(b), "r"(add))
template <typename T>
__device__ inline void product_of_rows(float (&d)[16][4], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_PRODUCT_OF_ROWS128("f16");
  } else {
    SNUG_PRODUCT_OF_ROWS128("bf16");
  }
}
#undef SNUG_PRODUCT_OF_ROWS128

// d[64, 128] += a[64, 16] b[16, 128], a in registers, b in shared memory.
#define SNUG_PRODUCT_WITH_COLUMNS128(type)                                                    \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SNUG_NAMES64 \
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"                                  \
               : SNUG_SUMS8(d, 0), SNUG_SUMS8(d, 8)                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <typename T>
__device__ inline void product_with_columns(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_PRODUCT_WITH_COLUMNS128("f16");
  } else {
    SNUG_PRODUCT_WITH_COLUMNS128("bf16");
  }
}
#undef SNUG_PRODUCT_WITH_COLUMNS128

// The first product of a sum, which makes it: its registers are free until then.
#define SNUG_NEW_SUMS1(d, n) "=f"(d[n][0]), "=f"(d[n][1]), "=f"(d[n][2]), "=f"(d[n][3])
#define SNUG_NEW_SUMS4(d, n) \
  SNUG_NEW_SUMS1(d, n), SNUG_NEW_SUMS1(d, n + 1), SNUG_NEW_SUMS1(d, n + 2), SNUG_NEW_SUMS1(d, n + 3)
#define SNUG_NEW_SUMS8(d, n) SNUG_NEW_SUMS4(d, n), SNUG_NEW_SUMS4(d, n + 4)
#define SNUG_FIRST_PRODUCT64(type, columns)                                         \
  asm volatile(                                                                     \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                    \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" SNUG_NAMES32 \
      "}, %32, %33, p, 1, 1, " columns ";\n}\n"                                     \
      : SNUG_NEW_SUMS8(d, 0)                                                        \
      : "l"(a), "l"(b))
#define SNUG_FIRST_PRODUCT128(type)                                                  \
  asm volatile(                                                                      \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                     \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" SNUG_NAMES64 \
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"                                             \
      : SNUG_NEW_SUMS8(d, 0), SNUG_NEW_SUMS8(d, 8)                                   \
      : "l"(a), "l"(b))
template <typename T>
__device__ inline void first_product_of_rows(float (&d)[8][4], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_FIRST_PRODUCT64("f16", "0, 0");
  } else {
    SNUG_FIRST_PRODUCT64("bf16", "0, 0");
  }
}
template <typename T>
__device__ inline void first_product_of_columns(float (&d)[8][4], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_FIRST_PRODUCT64("f16", "1, 1");
  } else {
    SNUG_FIRST_PRODUCT64("bf16", "1, 1");
  }
}
template <typename T>
__device__ inline void first_product_of_rows(float (&d)[16][4], uint64_t a, uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    SNUG_FIRST_PRODUCT128("f16");
  } else {
    SNUG_FIRST_PRODUCT128("bf16");
  }
}
#undef SNUG_FIRST_PRODUCT64
#undef SNUG_FIRST_PRODUCT128

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
