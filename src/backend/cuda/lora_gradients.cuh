// Both gradients of LoRA's up product on Hopper, in one launch: the kernel (lora_gradients.cu launches it).
//
// Some clusters make the down product's gradient, dy B: a block has 128 tokens and a share of the depth, and
// the cluster adds the shares up in order. The blocks of the others make dB = dy^T down, 64 rows at a time,
// and keep the down product of all tokens in shared memory. In a block one thread, or two, have the copy
// engine fetch tiles, and two warpgroups multiply.
#pragma once

#include <algorithm>

#include "backend/cuda/attention/copy_engine.cuh"
#include "backend/cuda/gated_product.cuh"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {

inline constexpr int kCluster = 8;
inline constexpr int kMostSlices = 8;
inline constexpr int kMostTokens = 512;
inline constexpr int kBox = 64;         // columns of a box, and rows of B
inline constexpr int kBoxTokens = 128;  // rows of a box of dy or of the down product
inline constexpr int kBoxBytes = kBoxTokens * kBox * 2;
inline constexpr int kMostBoxes = kMostTokens / kBoxTokens;
inline constexpr int kMostRanks = 128;  // of a slice

// A part of the adapter; where its rank is large, 128 of its ranks.
struct LoraSlice {
  void* ddown = nullptr;
  float* db = nullptr;
  int rows = 0;  // of B: columns of dy
  int ranks = 0;
  int splits = 1;         // blocks that share the depth of a tile of ddown
  int first_cluster = 0;  // of those that make ddown
  int first_chunk = 0;    // of all slices' 64 rows of dB
};

// Slices of dy, down [tokens, ...] and of B, each with an end of its own: zeros are read beyond it.
struct LoraSliceMaps {
  CUtensorMap dy;
  CUtensorMap down;
  CUtensorMap b;
};

struct LoraGradientArguments {
  LoraSliceMaps maps[kMostSlices];
  LoraSlice slice[kMostSlices];
  int slices = 0;
  int tokens = 0;
  int rank = 0;
  int64_t down_stride = 0;
  float scale = 1.0F;
  int ddown_clusters = 0;
  int chunks = 0;
  bool add_ddown = false;
  bool add_db = false;
};

template <int kRanksPadded, int kTileRanksOfSlice>
struct LoraGradientShape {
  static constexpr int kRanks = kRanksPadded;
  // Of the down product's gradient: tiles of 128 tokens, and the boxes of dy and of B that they take, 64
  // deep.
  static constexpr int kTileRanks = kTileRanksOfSlice;
  static constexpr int kStepBytes = kBoxBytes + kBox * kTileRanks * 2;
  static constexpr int kSteps = 224 * 1024 / kStepBytes;
  // What a block has of a tile is laid down as floats; rows that meet in a bank are further apart.
  static constexpr int kSumStride = kTileRanks + 8;
  // Of dB: the down product, and boxes of dy.
  static constexpr int kDownBytes = kBoxTokens * kRanks * 2;
  static constexpr int kRingAt = kMostBoxes * kDownBytes;
  static constexpr int kBoxes = (224 * 1024 - kRingAt) / kBoxBytes / kWorkingGroups;
  // Barriers of the rings, of the down product's boxes, and of their being done with.
  static constexpr int kBarriersAt = 224 * 1024;
  static constexpr int kDownBarriersAt = kBarriersAt + 16 * std::max(kSteps, (kWorkingGroups * kBoxes));
  static constexpr int kBytes = kDownBarriersAt + 8 * (kMostBoxes + 1);
  static_assert(kBoxTokens * kSumStride * 4 <= kBarriersAt && kBytes <= 227 * 1024);
};

#ifdef SNUG_HOPPER

// `warps` are done with a stage before it is fetched again.
template <int kStages>
__device__ inline void start_ring(const Ring<kStages>& ring, int warps) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      start_barrier(ring.full_of(i), 1);
      start_barrier(ring.empty_of(i), warps);
    }
  }
}
__device__ inline void barriers_are_made() {
  publish_barriers();
  __syncthreads();
}

// The same in all of a warp, for uniform registers.
__device__ inline int working_group() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / kGroupThreads - 1, 0);
}

// Boxes side by side, 64 ranks each from `rank` on, of kRows rows from `row` on.
template <int kRanks, int kRows>
__device__ inline void start_ranks(uint32_t to, const CUtensorMap& map, int rank, int row, uint32_t barrier) {
#pragma unroll
  for (int column = 0; column < kRanks; column += kBox) {
    start_panel(to + static_cast<uint32_t>(column * kRows * 2), map, rank + column, row, 0, barrier);
  }
}

// A block's tile of the down product's gradient, and its share of the depth.
template <class Shape>
struct DdownWork {
  const LoraGradientArguments& a;
  uint32_t memory = 0;
  int index = 0;  // of the slice
  int token = 0;
  int rank = 0;   // of the slice's
  int place = 0;  // among the blocks that share the tile
  int begin = 0;  // steps
  int steps = 0;

  __device__ DdownWork(const LoraGradientArguments& arguments, uint32_t shared)
      : a(arguments), memory(shared) {
    constexpr int kRankTiles = Shape::kRanks / Shape::kTileRanks;
    int cluster = static_cast<int>(blockIdx.x) / kCluster;
    while (index + 1 < a.slices && cluster >= a.slice[index + 1].first_cluster) {
      ++index;
    }
    int splits = slice().splits;
    int tile = (cluster - slice().first_cluster) * (kCluster / splits) + cluster_rank() / splits;
    token = tile / kRankTiles * kBoxTokens;
    rank = tile % kRankTiles * Shape::kTileRanks;
    place = cluster_rank() % splits;
    int all = (slice().rows + kBox - 1) / kBox;
    begin = all * place / splits;
    steps = token < a.tokens ? all * (place + 1) / splits - begin : 0;
  }
  __device__ const LoraSlice& slice() const { return a.slice[index]; }
  __device__ Ring<Shape::kSteps> ring() const { return {memory + Shape::kBarriersAt}; }
  __device__ uint32_t dy(int step) const {
    return memory + static_cast<uint32_t>(step % Shape::kSteps * Shape::kStepBytes);
  }
  __device__ uint32_t b(int step) const { return dy(step) + kBoxBytes; }
};

// One thread.
template <class Shape>
__device__ inline void fetch_ddown(const DdownWork<Shape>& work) {
  const LoraSliceMaps& maps = work.a.maps[work.index];
  Ring<Shape::kSteps> ring = work.ring();
  for (int step = 0; step < work.steps; ++step) {
    int depth = (work.begin + step) * kBox;
    wait_barrier(ring.empty_of(step), (step / Shape::kSteps & 1) ^ 1);
    expect_bytes(ring.full_of(step), Shape::kStepBytes);
    start_panel(work.dy(step), maps.dy, depth, work.token, 0, ring.full_of(step));
    start_ranks<Shape::kTileRanks, kBox>(work.b(step), maps.b, work.rank, depth, ring.full_of(step));
  }
}

// A working group's 64 tokens of the tile, laid down for the cluster.
template <typename T, class Shape>
__device__ inline void multiply_ddown(const DdownWork<Shape>& work) {
  Ring<Shape::kSteps> ring = work.ring();
  auto group_rows = static_cast<uint32_t>(working_group() * (kBoxBytes / 2));
  Sums<1, Shape::kTileRanks / 8> sums;
  for (int step = 0; step < work.steps; ++step) {
    ring.wait_full(step);
    fence_products();
#pragma unroll
    for (int deep = 0; deep < kBox / 16; ++deep) {
      product_rows_columns<T>(sums[0], describe_rows<64>(work.dy(step) + group_rows, deep),
                              describe_columns<kBox>(work.b(step), deep), step > 0 || deep > 0 ? 1 : 0);
    }
    commit_products();
    wait_products<1>();
    if (step > 0) {
      ring.release(step - 1);
    }
  }
  wait_products<0>();
  sync_working();  // the sums lie where the other group's operands were
  int lane = static_cast<int>(threadIdx.x) % 32;
  int row = (static_cast<int>(threadIdx.x) - kGroupThreads) / 32 * 16 + lane / 4;
  settle(sums);
#pragma unroll
  for (int i = 0; i < Shape::kTileRanks / 4; ++i) {
    int half = i % 2;
    int n = i / 2;
    int at = (row + 8 * half) * Shape::kSumStride + 8 * n + 2 * (lane % 4);
    write_floats(work.memory + static_cast<uint32_t>(4 * at), sums[0][n][2 * half], sums[0][n][2 * half + 1]);
  }
}

// The sums of all blocks that share the tile, in their order; each of them writes some of its rows.
template <typename T, class Shape>
__device__ inline void add_up_ddown(const DdownWork<Shape>& work) {
  constexpr int kQuads = Shape::kTileRanks / 4;
  const LoraSlice& slice = work.slice();
  int first = cluster_rank() - work.place;
  int rows = kBoxTokens / slice.splits;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kQuads; i += kHopperThreads) {
    int row = work.place * rows + i / kQuads;
    int column = i % kQuads * 4;
    int64_t token = work.token + row;
    if (token >= work.a.tokens || work.rank + column >= slice.ranks) {
      continue;
    }
    float4 share[kCluster];  // all are on their way before the first is needed
#pragma unroll
    for (int j = 0; j < kCluster; ++j) {
      if (j < slice.splits) {
        share[j] = read_cluster(work.memory + static_cast<uint32_t>((row * Shape::kSumStride + column) * 4),
                                first + j);
      }
    }
    float sum[4] = {};
#pragma unroll
    for (int j = 0; j < kCluster; ++j) {
      if (j < slice.splits) {
        sum[0] += share[j].x;
        sum[1] += share[j].y;
        sum[2] += share[j].z;
        sum[3] += share[j].w;
      }
    }
#pragma unroll
    for (float& value : sum) {
      value *= work.a.scale;
    }
    write<4>(static_cast<T*>(slice.ddown) + token * work.a.down_stride + work.rank + column, sum,
             work.a.add_ddown);
  }
}

template <typename T, class Shape>
__device__ inline void make_ddown(const LoraGradientArguments& a, uint32_t memory) {
  DdownWork<Shape> work(a, memory);
  start_ring(work.ring(), kWorkingGroups * 4);
  barriers_are_made();
  if (threadIdx.x >= kGroupThreads) {
    multiply_ddown<T>(work);
  } else if (threadIdx.x == 0) {
    fetch_ddown(work);
  }
  __syncwarp();
  sync_cluster();
  add_up_ddown<T>(work);
  sync_cluster();  // others may still read this block's sums
}

// A block's chunks of dB, 64 rows each, of one slice after the other. Working groups take them in turn: one
// writes while the other multiplies. Each has a ring of its own, as barriers tell only two phases apart.
template <class Shape>
struct DbWork {
  const LoraGradientArguments& a;
  uint32_t memory = 0;
  int boxes = 0;  // of all tokens
  int begin = 0;
  int end = 0;

  __device__ int slice_of(int chunk) const {
    int index = 0;
    while (index + 1 < a.slices && chunk >= a.slice[index + 1].first_chunk) {
      ++index;
    }
    return index;
  }
  __device__ Ring<Shape::kBoxes> ring(int group) const {
    return {memory + static_cast<uint32_t>(Shape::kBarriersAt + group * Ring<Shape::kBoxes>::kBytes)};
  }
  __device__ int group_of(int chunk) const { return (chunk - begin) % kWorkingGroups; }
  __device__ int step_of(int chunk, int box) const { return (chunk - begin) / kWorkingGroups * boxes + box; }
  __device__ uint32_t dy(int group, int step) const {
    return memory + Shape::kRingAt +
           static_cast<uint32_t>((group * Shape::kBoxes + step % Shape::kBoxes) * kBoxBytes);
  }
  __device__ uint32_t down(int box) const { return memory + static_cast<uint32_t>(box * Shape::kDownBytes); }
  __device__ uint32_t down_full(int box) const {
    return memory + static_cast<uint32_t>(Shape::kDownBarriersAt + 8 * box);
  }
  __device__ uint32_t down_empty() const { return down_full(kMostBoxes); }
};

// One thread a group; the first one fetches the down product too.
template <class Shape>
__device__ inline void fetch_db(const DbWork<Shape>& work, int group) {
  Ring<Shape::kBoxes> ring = work.ring(group);
  int loaded = -1;
  int loads = 0;
  for (int chunk = work.begin; chunk < work.end; ++chunk) {
    int index = work.slice_of(chunk);
    bool is_new = group == 0 && index != loaded;
    if (is_new && loads > 0) {
      wait_barrier(work.down_empty(), (loads - 1) & 1);
    }
    loads += is_new ? 1 : 0;
    loaded = index;
    const LoraSliceMaps& maps = work.a.maps[index];
    int column = (chunk - work.a.slice[index].first_chunk) * kBox;
    for (int box = 0; box < work.boxes; ++box) {
      if (is_new) {
        expect_bytes(work.down_full(box), Shape::kDownBytes);
        start_ranks<Shape::kRanks, kBoxTokens>(work.down(box), maps.down, 0, box * kBoxTokens,
                                               work.down_full(box));
      }
      if (work.group_of(chunk) == group) {
        int step = work.step_of(chunk, box);
        wait_barrier(ring.empty_of(step), (step / Shape::kBoxes & 1) ^ 1);
        expect_bytes(ring.full_of(step), kBoxBytes);
        start_panel(work.dy(group, step), maps.dy, column, box * kBoxTokens, 0, ring.full_of(step));
      }
    }
  }
}

// A working group's chunk of dB = or += scale * sums.
template <class Shape>
__device__ inline void store_db(const LoraGradientArguments& a, const LoraSlice& slice, int chunk,
                                const Sums<1, Shape::kRanks / 8>& sums) {
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  int lane = thread % 32;
  int first_row = (chunk - slice.first_chunk) * kBox + thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int row = first_row + 8 * half;
    if (row >= slice.rows) {
      continue;
    }
    float* to = slice.db + static_cast<int64_t>(row) * a.rank + 2 * (lane % 4);
    float2 before[Shape::kRanks / 8];
#pragma unroll
    for (int n = 0; n < Shape::kRanks / 8; ++n) {
      bool is_added = a.add_db && 8 * n < slice.ranks;
      before[n] = is_added ? *reinterpret_cast<const float2*>(to + 8 * n) : make_float2(0, 0);
    }
#pragma unroll
    for (int n = 0; n < Shape::kRanks / 8; ++n) {
      if (8 * n < slice.ranks) {
        *reinterpret_cast<float2*>(to + 8 * n) =
            make_float2(fmaf(sums[0][n][2 * half], a.scale, before[n].x),
                        fmaf(sums[0][n][2 * half + 1], a.scale, before[n].y));
      }
    }
  }
}

// A working group's chunk.
template <typename T, class Shape>
__device__ inline void multiply_chunk(const DbWork<Shape>& work, int group, int chunk, int loads,
                                      Sums<1, Shape::kRanks / 8>& sums) {
  Ring<Shape::kBoxes> ring = work.ring(group);
  for (int box = 0; box < work.boxes; ++box) {
    int step = work.step_of(chunk, box);
    ring.wait_full(step);
    wait_barrier(work.down_full(box), (loads - 1) & 1);
    fence_products();
#pragma unroll
    for (int deep = 0; deep < kBoxTokens / 16; ++deep) {
      product_of_columns<T>(sums[0], describe_columns<kBoxTokens>(work.dy(group, step), deep),
                            describe_columns<kBoxTokens>(work.down(box), deep), box > 0 || deep > 0 ? 1 : 0);
    }
    commit_products();
    wait_products<1>();
    if (box > 0) {
      ring.release(step - 1);
    }
  }
  wait_products<0>();
  settle(sums);
  ring.release(work.step_of(chunk, work.boxes - 1));
}

// All groups go along with what the down product is of, so that none is a phase behind.
template <typename T, class Shape>
__device__ inline void multiply_db(const DbWork<Shape>& work) {
  int group = working_group();
  int loaded = -1;
  int loads = 0;
  for (int chunk = work.begin; chunk < work.end; ++chunk) {
    int index = work.slice_of(chunk);
    if (index != loaded) {
      __syncwarp();
      if (loads > 0 && threadIdx.x % 32 == 0) {
        arrive(work.down_empty());
      }
      ++loads;
      loaded = index;
      wait_barrier(work.down_full(0), (loads - 1) & 1);
    }
    if (work.group_of(chunk) == group) {
      Sums<1, Shape::kRanks / 8> sums;
      multiply_chunk<T>(work, group, chunk, loads, sums);
      store_db<Shape>(work.a, work.a.slice[index], chunk, sums);
    }
  }
}

template <typename T, class Shape>
__device__ inline void make_db(const LoraGradientArguments& a, uint32_t memory) {
  DbWork<Shape> work{.a = a, .memory = memory};
  int place = static_cast<int>(blockIdx.x) - a.ddown_clusters * kCluster;
  int blocks = static_cast<int>(gridDim.x) - a.ddown_clusters * kCluster;
  work.boxes = (a.tokens + kBoxTokens - 1) / kBoxTokens;
  work.begin = a.chunks * place / blocks;
  work.end = a.chunks * (place + 1) / blocks;
  for (int group = 0; group < kWorkingGroups; ++group) {
    start_ring(work.ring(group), 4);
  }
  if (threadIdx.x == 0) {
    for (int box = 0; box < kMostBoxes; ++box) {
      start_barrier(work.down_full(box), 1);
    }
    start_barrier(work.down_empty(), kWorkingGroups * 4);
  }
  barriers_are_made();
  if (threadIdx.x >= kGroupThreads) {
    multiply_db<T>(work);
  } else if (threadIdx.x % 32 == 0 && threadIdx.x < 32 * kWorkingGroups) {
    fetch_db(work, static_cast<int>(threadIdx.x) / 32);
  }
}

#endif  // SNUG_HOPPER

template <typename T, class Shape>
__global__ void SNUG_HOPPER_BOUNDS lora_gradients_kernel(const __grid_constant__ LoraGradientArguments a) {
#ifdef SNUG_HOPPER
  extern __shared__ __align__(1024) unsigned char shared[];
  uint32_t memory = shared_address(shared);
  if (static_cast<int>(blockIdx.x) < a.ddown_clusters * kCluster) {
    make_ddown<T, Shape>(a, memory);
  } else {
    make_db<T, Shape>(a, memory);
  }
#endif
}

}  // namespace snug::cuda
