// LoRA's up product on Hopper: y += scale * down B^T. So little is multiplied here that reading and writing y
// is what takes the time, and library products, which read it between products, leave memory idle. A block
// walks along 128 rows of y; one warpgroup fetches the tiles of y and B ahead, two add, 64 rows each.
#include "backend/cuda/lora_hopper.h"

#include <algorithm>

#include "backend/cuda/attention/hopper.cuh"
#include "backend/cuda/check.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kMostParts = 4;
constexpr int kProcessors = 132;
constexpr int kTile = 128;  // rows and columns of y
constexpr int kGroupRows = kTile / kWorkingGroups;

template <int kDepthPadded>
struct LoraShape : RegisterSplit<88, 208> {
  static constexpr int kDepth = kDepthPadded;  // the rank, padded
  static constexpr int kStages = 3;
  static constexpr int kGroupBytes = kGroupRows * kDepth * 2;
  static constexpr int kBBytes = kTile * kDepth * 2;
  static constexpr int kYBytes = kTile * kTile * 2;
  // Per group rows of the down product; the ring of tiles of B and y; its barriers.
  static constexpr int kRingAt = kWorkingGroups * kGroupBytes;
  static constexpr int kBarriersAt = kRingAt + kStages * (kBBytes + kYBytes);
  static constexpr int kBytes = kBarriersAt + kStages * 16;
};

struct UpPart {
  int64_t y_column = 0;
  int64_t b_row = 0;
  int rows = 0;        // of B: columns of y
  int first_tile = 0;  // of all parts' tiles, one after the other
};

struct UpArguments {
  void* y = nullptr;
  const void* down = nullptr;
  const void* b = nullptr;
  int64_t y_stride = 0;
  int64_t down_stride = 0;
  int tokens = 0;
  int rank = 0;
  float scale = 1.0F;
  int tiles = 0;
  int walks = 1;  // blocks that share the tiles of a row of tiles
  int parts = 0;
  UpPart part[kMostParts];
};

#ifdef SNUG_HOPPER

// What a block does: the tiles [begin, end) of its rows.
template <class Shape>
struct Walk {
  const UpArguments& a;
  int first_row = 0;
  int begin = 0;
  int end = 0;
  uint32_t memory = 0;
  Ring<Shape::kStages> ring;

  __device__ int part_of(int tile) const {
    int part = 0;
    while (part + 1 < a.parts && tile >= a.part[part + 1].first_tile) {
      ++part;
    }
    return part;
  }
  // The tile's first column within its part.
  __device__ int column_of(int tile, int part) const { return (tile - a.part[part].first_tile) * kTile; }
  __device__ uint32_t b_tile(int tile) const {
    return memory + Shape::kRingAt +
           static_cast<uint32_t>((tile - begin) % Shape::kStages * (Shape::kBBytes + Shape::kYBytes));
  }
  __device__ uint32_t y_tile(int tile) const { return b_tile(tile) + Shape::kBBytes; }
};

template <typename T>
__device__ inline Rows y_rows(const UpArguments& a, int part, int row, int column) {
  return rows_of<T>(a.y, a.y_stride, row, a.part[part].y_column + column, a.tokens - row,
                    a.part[part].rows - column);
}

template <typename T, class Shape>
__device__ inline void fetch(const Walk<Shape>& walk) {
  const UpArguments& a = walk.a;
  int thread = static_cast<int>(threadIdx.x);
  Fetcher fetcher;
  for (int tile = walk.begin; tile < walk.end; ++tile) {
    int part = walk.part_of(tile);
    int column = walk.column_of(tile, part);
    fetcher.wait_room(walk.ring, tile - walk.begin);
    load_tile<kTile, Shape::kDepth, kGroupThreads>(
        walk.b_tile(tile),
        rows_of<T>(a.b, a.rank, a.part[part].b_row + column, 0, a.part[part].rows - column, a.rank), thread);
    load_tile<kTile, kTile, kGroupThreads>(walk.y_tile(tile), y_rows<T>(a, part, walk.first_row, column),
                                           thread);
    fetcher.announce(walk.ring, tile - walk.begin);
  }
  fetcher.finish();
}

// The group's rows of the part's down product.
template <typename T, class Shape>
__device__ inline void load_down(const Walk<Shape>& walk, int part, int group, uint32_t to) {
  const UpArguments& a = walk.a;
  int row = walk.first_row + group * kGroupRows;
  load_tile<kGroupRows, Shape::kDepth, kGroupThreads>(
      to, rows_of<T>(a.down, a.down_stride, row, static_cast<int64_t>(part) * a.rank, a.tokens - row, a.rank),
      static_cast<int>(threadIdx.x) % kGroupThreads);
  commit_copies();
  wait_copies<0>();
  publish_writes();
  sync_group(group);
}

// The warp's 16 rows of the tile of y, from `row` on, += scale * sums, in shared memory.
template <typename T>
__device__ inline void add_to_tile(uint32_t tile, int row, const Sums<1, kTile / 8>& sums, float scale) {
  int lane = static_cast<int>(threadIdx.x & 31);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // All are read before any is written: the reads then do not wait for each other.
    uint32_t pairs[kTile / 8];
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
      uint32_t at = tile + chunk_offset<kTile>(row + 8 * half + lane / 4, n) + 4 * (lane & 3);
      pairs[n] = read_word(at);
    }
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
      uint32_t at = tile + chunk_offset<kTile>(row + 8 * half + lane / 4, n) + 4 * (lane & 3);
      const T* pair = reinterpret_cast<const T*>(&pairs[n]);
      uint32_t sum = pack<T>(fmaf(sums[0][n][2 * half], scale, as_float(pair[0])),
                             fmaf(sums[0][n][2 * half + 1], scale, as_float(pair[1])));
      write_word(at, sum);
    }
  }
}

// The group's rows of the tile go to y.
__device__ inline void store_tile(uint32_t tile, int first_row, const Rows& y) {
  constexpr int kChunks = kTile / 8;
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  int chunk = thread % kChunks;
  if (8 * chunk >= y.head_dim) {
    return;
  }
  constexpr int kRowStep = kGroupThreads / kChunks;
#pragma unroll
  for (int step = 0; step < kGroupRows / kRowStep; ++step) {
    int i = thread / kChunks + step * kRowStep;
    uint4 value = read_chunk(tile + chunk_offset<kTile>(first_row + i, chunk));
    if (i < y.count) {
      auto* to = static_cast<char*>(const_cast<void*>(y.data)) + (i * y.stride + 8 * chunk) * 2;
      *reinterpret_cast<uint4*>(to) = value;
    }
  }
}

template <typename T, class Shape>
__device__ inline void add_products(const Walk<Shape>& walk) {
  const UpArguments& a = walk.a;
  int thread = static_cast<int>(threadIdx.x) - kGroupThreads;
  int group = thread / kGroupThreads;
  uint32_t down = walk.memory + group * Shape::kGroupBytes;
  int loaded = -1;
  Sums<1, kTile / 8> sums;
  for (int tile = walk.begin; tile < walk.end; ++tile) {
    int part = walk.part_of(tile);
    if (part != loaded) {
      load_down<T>(walk, part, group, down);
      loaded = part;
    }
    walk.ring.wait_full(tile - walk.begin);
    fence_products();
    start_product_of_rows<T, kGroupRows, Shape::kDepth>(sums, down, walk.b_tile(tile));
    wait_products<0>();
    settle(sums);
    add_to_tile<T>(walk.y_tile(tile), thread / 32 * 16, sums, a.scale);
    sync_group(group);
    store_tile(walk.y_tile(tile), group * kGroupRows,
               y_rows<T>(a, part, walk.first_row + group * kGroupRows, walk.column_of(tile, part)));
    __syncwarp();
    walk.ring.release(tile - walk.begin);
  }
}

#endif  // SNUG_HOPPER

template <typename T, class Shape>
__global__ void SNUG_HOPPER_BOUNDS lora_up_kernel(const __grid_constant__ UpArguments a) {
#ifdef SNUG_HOPPER
  extern __shared__ __align__(1024) unsigned char shared[];
  Walk<Shape> walk{a};
  int place = static_cast<int>(blockIdx.x) % a.walks;
  walk.first_row = static_cast<int>(blockIdx.x) / a.walks * kTile;
  walk.begin = a.tiles * place / a.walks;
  walk.end = a.tiles * (place + 1) / a.walks;
  walk.memory = shared_address(shared);
  walk.ring.start(walk.memory + Shape::kBarriersAt);
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    fetch<T>(walk);
  } else {
    grow_registers<Shape::kWorkingRegisters>();
    add_products<T>(walk);
  }
#endif
}

template <typename T, class Shape>
bool launch(const UpArguments& a, cudaStream_t stream) {
  auto* kernel = lora_up_kernel<T, Shape>;
  if (!hopper_is_built(kernel)) {
    return false;
  }
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes),
        "adding an adapter");
  int row_blocks = (a.tokens + kTile - 1) / kTile;
  kernel<<<static_cast<unsigned>(row_blocks * a.walks), kHopperThreads, Shape::kBytes, stream>>>(a);
  check_launch("adding an adapter");
  return true;
}

template <typename T>
bool launch_for_rank(const UpArguments& a, cudaStream_t stream) {
  return a.rank <= 64 ? launch<T, LoraShape<64>>(a, stream) : launch<T, LoraShape<128>>(a, stream);
}

}  // namespace

bool hopper_lora_up(const KernelCall& call, cudaStream_t stream) {
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  const Tensor& down = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const Tensor& y = call.outputs[0];
  // For a single part the library's product was seen to be as fast.
  if (y.dtype == DType::f32 || attributes.rank > 128 || attributes.parts.size() < 2 ||
      attributes.parts.size() > kMostParts || !has_whole_vectors(down) || !has_whole_vectors(b) ||
      !has_whole_vectors(y)) {
    return false;
  }
  UpArguments a;
  a.y = y.data;
  a.down = down.data;
  a.b = b.data;
  a.y_stride = y.columns();
  a.down_stride = down.columns();
  a.tokens = static_cast<int>(y.rows());
  a.rank = static_cast<int>(attributes.rank);
  a.scale = attributes.scale;
  for (const LoraPart& part : attributes.parts) {
    if (part.y_column % 8 != 0 || part.rows % 8 != 0) {
      return false;
    }
    a.part[a.parts++] = {part.y_column, part.b_row, static_cast<int>(part.rows), a.tiles};
    a.tiles += static_cast<int>((part.rows + kTile - 1) / kTile);
  }
  int row_blocks = (a.tokens + kTile - 1) / kTile;
  if (row_blocks == 0) {
    return true;
  }
  a.walks = std::clamp(kProcessors / row_blocks, 1, a.tiles);
  return y.dtype == DType::f16 ? launch_for_rank<__half>(a, stream)
                               : launch_for_rank<__nv_bfloat16>(a, stream);
}

}  // namespace snug::cuda
