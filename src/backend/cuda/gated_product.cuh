// What products with a gated activation behind them share on Hopper; they may begin with an adapter's share.
//
// Pairs of blocks take tiles of 2 x 128 tokens in turn; each block fetches its own tokens, and one half of
// the weight's tile for both. In a block one warp fetches operands, in steps of 64 numbers deep, and another
// what the activation needs beside the product (planes). Two warpgroups work, each on a tile of its own:
// while one multiplies, the other makes activations of its sums in the planes, and has the copy engine write
// them. Blocks get there at about the same time, and what they write would hold up the operands that they
// fetch; so it is written in parts, with pauses.
//
// An adapter's share is a few more steps before the others. They are multiplied while the other group's last
// ones are, so that scaling their sums holds up no products.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "backend/cuda/attention/copy_engine.cuh"
#include "backend/cuda/attention/hopper.cuh"
#include "backend/cuda/check.h"
#include "backend/cuda/gate_functions.cuh"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {

inline constexpr int kPairBlocks = 2;
inline constexpr int kTileTokens = 128;  // of a block
inline constexpr int kStepDepth = 64;    // numbers: 128 bytes, a swizzled row
inline constexpr int kPlanes = 3;
// The parts that each round of planes is written in.
inline constexpr int kWritingParts = 4;
// With few tokens a block has few tiles; where the last ones leave many blocks idle, the library, which can
// choose among more tilings, is faster.
inline constexpr int kFewestTokens = 512;
inline constexpr int kManyTokens = 4096;
inline constexpr double kLeastShareOfFew = 0.95;
// No shape has fewer stages: an adapter's steps are all under way before the first of them is used again.
inline constexpr int kMostAdapterSteps = 4;

struct GatedSizes {
  int tokens = 0;
  int features = 0;  // of the activation
  int depth = 0;     // of the product
  int token_tiles = 0;
  int feature_tiles = 0;
  // Of an adapter's share, if there is one: the columns of its down product, and the steps that they take.
  // Its parts are multiplied side by side, each with zeros for the columns of the others.
  int adapter_depth = 0;
  int adapter_steps = 0;
  float scale = 1;
  int part_depth = 0;  // columns of the gate's part, where gate and up have parts of their own
  int pause_ns = 0;
  bool writes_gated = false;  // the activation is wanted; of a gradient: once more
};

// x [tokens, depth] in boxes of a block's tokens, the weight in what a block fetches of it, and [tokens, 2 or
// 1, features] read and written in parts of a plane.
struct GatedMaps {
  CUtensorMap x;
  CUtensorMap weight;
  CUtensorMap adapter_x;  // the down product, or its gradient
  CUtensorMap adapter_weight;
  CUtensorMap wide_in;
  CUtensorMap wide_out;
  CUtensorMap narrow_in;
  CUtensorMap narrow_out;
};

// A matrix [slices, rows, columns] of 16-bit numbers, read or written in boxes.
struct MapShape {
  int64_t columns = 0;
  int64_t rows = 0;
  int64_t slices = 1;
  int64_t row_stride = 0;  // elements
  int64_t slice_stride = 0;
  int box_columns = 0;
  int box_rows = 0;
  int box_slices = 1;
  bool swizzled = true;
};
inline bool make_map(CUtensorMap& map, const Tensor& tensor, const MapShape& shape) {
  static const EncodeTensorMap encode = find_encoder();
  if (encode == nullptr) {
    return false;
  }
  auto type = tensor.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  cuuint64_t sizes[3] = {static_cast<cuuint64_t>(shape.columns), static_cast<cuuint64_t>(shape.rows),
                         static_cast<cuuint64_t>(shape.slices)};
  cuuint64_t strides[2] = {static_cast<cuuint64_t>(shape.row_stride) * 2,
                           static_cast<cuuint64_t>(shape.slice_stride) * 2};
  cuuint32_t box[3] = {static_cast<cuuint32_t>(shape.box_columns), static_cast<cuuint32_t>(shape.box_rows),
                       static_cast<cuuint32_t>(shape.box_slices)};
  cuuint32_t steps[3] = {1, 1, 1};
  return encode(&map, type, 3, tensor.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                shape.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
// Of rows [tokens, depth], of which a block fetches its tokens.
inline bool make_row_map(CUtensorMap& map, const Tensor& x) {
  return make_map(map, x,
                  {.columns = x.columns(),
                   .rows = x.rows(),
                   .row_stride = x.columns(),
                   .slice_stride = x.elements(),
                   .box_columns = kStepDepth,
                   .box_rows = kTileTokens});
}
// [tokens, halves, features], of which a box has one half.
struct PlaneBox {
  int tokens;
  int features;
  bool swizzled;
};
inline bool make_plane_map(CUtensorMap& map, const Tensor& tensor, int64_t halves, const PlaneBox& box) {
  int64_t features = tensor.columns() / halves;
  return make_map(map, tensor,
                  {.columns = features,
                   .rows = halves,
                   .slices = tensor.rows(),
                   .row_stride = features,
                   .slice_stride = tensor.columns(),
                   .box_columns = box.features,
                   .box_rows = 1,
                   .box_slices = box.tokens,
                   .swizzled = box.swizzled});
}

// Where a shape's tiles, planes and barriers lie in shared memory. `Shape` has kStages, kColumns (of the
// product's tile), kPlaneBytes, kRounds (of planes for a tile) and kFeatures (of a tile).
template <class Shape>
struct GatedMemory {
  static constexpr int kRowBytes = kTileTokens * 2 * kStepDepth;
  static constexpr int kStageBytes = kRowBytes + Shape::kColumns * 2 * kStepDepth;
  static constexpr int kPlanesAt = Shape::kStages * kStageBytes;
  static constexpr int kBarriersAt = kPlanesAt + kPlanes * Shape::kPlaneBytes;
  static constexpr int kBytes = kBarriersAt + (2 * Shape::kStages + kWorkingGroups + 1) * 8;
  static_assert(kBytes <= 227 * 1024 && Shape::kStages >= kMostAdapterSteps);
};

#ifdef SNUG_HOPPER

struct TilePlace {
  int token = 0;
  int feature = 0;
};

// The tiles of a block, one after the other, and the steps of all of them.
template <class Shape>
struct GatedWalk {
  using Memory = GatedMemory<Shape>;
  const GatedSizes& sizes;
  uint32_t memory;
  int rank = cluster_rank();
  int first = static_cast<int>(blockIdx.x) / kPairBlocks;
  int pairs = static_cast<int>(gridDim.x) / kPairBlocks;
  int steps = (sizes.depth + kStepDepth - 1) / kStepDepth;
  int tile_steps = sizes.adapter_steps + steps;
  int count = (sizes.token_tiles * sizes.feature_tiles - first + pairs - 1) / pairs;

  __device__ uint32_t rows(int step) const {
    return memory + static_cast<uint32_t>(step % Shape::kStages * Memory::kStageBytes);
  }
  __device__ uint32_t weights(int step) const { return rows(step) + Memory::kRowBytes; }
  __device__ uint32_t plane(int index) const {
    return memory + static_cast<uint32_t>(Memory::kPlanesAt + index * Shape::kPlaneBytes);
  }
  __device__ uint32_t full(int step) const {
    return memory + static_cast<uint32_t>(Memory::kBarriersAt + 8 * (step % Shape::kStages));
  }
  __device__ uint32_t empty(int step) const { return full(step) + 8 * Shape::kStages; }
  // The planes are there for this group; they may be fetched again.
  __device__ uint32_t planes_ready(int group) const {
    return memory + static_cast<uint32_t>(Memory::kBarriersAt + 16 * Shape::kStages + 8 * group);
  }
  __device__ uint32_t planes_free() const { return planes_ready(kWorkingGroups); }

  __device__ void start() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Shape::kStages; ++i) {
        start_barrier(full(i), 1);
        start_barrier(empty(i), kPairBlocks * kGroupThreads / 32);
      }
      for (int i = 0; i <= kWorkingGroups; ++i) {
        start_barrier(planes_ready(i), 1);
      }
      publish_barriers();
    }
    sync_cluster();
  }
  // Pairs side by side take neighbouring tokens and features, so that the L2 cache has what they read.
  __device__ TilePlace place(int tile) const {
    constexpr int kGroup = 8;  // of token tiles
    int index = first + tile * pairs;
    int group = index / (kGroup * sizes.feature_tiles);
    int within = index - group * kGroup * sizes.feature_tiles;
    int token_tiles = min(kGroup, sizes.token_tiles - group * kGroup);
    int feature = within / token_tiles;
    int token = group * kGroup + within - feature * token_tiles;
    return {(token * kPairBlocks + rank) * kTileTokens, feature * Shape::kFeatures};
  }
  // Once a warp, in both blocks, as both have written into the step's memory.
  __device__ void release(int step) const {
    int lane = static_cast<int>(threadIdx.x & 31);
    if (lane < kPairBlocks) {
      arrive_in_cluster(empty(step), lane);
    }
  }
};

template <typename T>
__device__ inline float2 unpack(uint32_t pair) {
  const T* values = reinterpret_cast<const T*>(&pair);
  return {to_float(values[0]), to_float(values[1])};
}

// One thread. start_weights(step's memory, tile's place, depth, barrier) fetches the block's half of the
// weight's tile, start_share_weights of the adapter's.
template <class Shape, typename StartWeights, typename StartShareWeights>
__device__ inline void fetch_operands(const GatedWalk<Shape>& walk, const GatedMaps& maps,
                                      const StartWeights& start_weights,
                                      const StartShareWeights& start_share_weights) {
  int step = 0;
  for (int tile = 0; tile < walk.count; ++tile) {
    TilePlace at = walk.place(tile);
    for (int i = 0; i < walk.tile_steps; ++i, ++step) {
      wait_barrier(walk.empty(step), (step / Shape::kStages & 1) ^ 1);
      expect_bytes(walk.full(step), GatedMemory<Shape>::kStageBytes);
      if (i < walk.sizes.adapter_steps) {
        int depth = i * kStepDepth;
        start_panel(walk.rows(step), maps.adapter_x, depth, at.token, 0, walk.full(step));
        start_share_weights(walk.weights(step), at, depth, walk.full(step));
      } else {
        int depth = (i - walk.sizes.adapter_steps) * kStepDepth;
        start_panel(walk.rows(step), maps.x, depth, at.token, 0, walk.full(step));
        start_weights(walk.weights(step), at, depth, walk.full(step));
      }
    }
  }
}

// One thread. start_planes(place, round, barrier) fetches what a round needs, or arrives.
template <class Shape, typename StartPlanes>
__device__ inline void fetch_planes(const GatedWalk<Shape>& walk, const StartPlanes& start_planes) {
  int rounds = 0;
  for (int tile = 0; tile < walk.count; ++tile) {
    TilePlace at = walk.place(tile);
    for (int round = 0; round < Shape::kRounds; ++round, ++rounds) {
      if (rounds > 0) {
        wait_barrier(walk.planes_free(), (rounds - 1) & 1);
      }
      start_planes(at, round, walk.planes_ready(tile % kWorkingGroups));
    }
  }
}

// The turn of an adapter's steps comes when what was in their memory before has arrived: not earlier, as
// barriers tell only two phases apart.
inline constexpr int kAdapterTurnBarriers = kTurnBarriers + kWorkingGroups;
__device__ inline void wait_adapter_turn(int group) {
  wait_at_barrier(kAdapterTurnBarriers + group, kGroupThreads * kWorkingGroups);
}
__device__ inline void give_adapter_turn(int to_group) {
  arrive_at_barrier(kAdapterTurnBarriers + to_group, kGroupThreads * kWorkingGroups);
}

// The adapter's share of a tile: sums = scale * its products. multiply_share(sums, rows, weights, step).
template <class Shape, typename Sums, typename MultiplyShare>
__device__ inline void begin_with_adapter(const GatedWalk<Shape>& walk, Sums& sums, int step,
                                          const MultiplyShare& multiply_share) {
#pragma unroll 1
  for (int i = 0; i < walk.sizes.adapter_steps; ++i, ++step) {
    wait_barrier(walk.full(step), step / Shape::kStages & 1);
    fence_products();
    multiply_share(sums, walk.rows(step), walk.weights(step), i);
    commit_products();
    wait_products<1>();
    if (i > 0) {
      walk.release(step - 1);
    }
  }
  wait_products<0>();
  settle(sums[0]);
  settle(sums[1]);
  walk.release(step - 1);
  if (walk.sizes.scale != 1.0F) {
#pragma unroll
    for (int i = 0; i < Shape::kColumns; ++i) {
      sums[i & 1][0][i / 8][i / 2 % 4] *= walk.sizes.scale;
    }
  }
}

// A working group's tiles. multiply(sums, rows, weights, first) starts one step's products, multiply_share
// one of the adapter's; finish(sums, round) makes a round's planes; write(place, round, part) has the copy
// engine write a part of them.
template <class Shape, typename Sums, typename Multiply, typename MultiplyShare, typename Finish,
          typename Write>
__device__ inline void work_on_tiles(const GatedWalk<Shape>& walk, Sums& sums, const Multiply& multiply,
                                     const MultiplyShare& multiply_share, const Finish& finish,
                                     const Write& write) {
  int thread = static_cast<int>(threadIdx.x) - kGroupThreads;
  int group = __shfl_sync(0xffffffffU, thread / kGroupThreads, 0);  // for uniform registers
  bool has_adapter = walk.sizes.adapter_steps > 0;
  int adapter_turn_at = max(0, walk.steps - 1 - Shape::kStages + walk.sizes.adapter_steps);
  if (group == 1) {
    give_products_turn(0);
    if (has_adapter) {
      give_adapter_turn(0);
    }
  }
  for (int tile = group; tile < walk.count; tile += kWorkingGroups) {
    int step = tile * walk.tile_steps;
    if (has_adapter) {
      wait_adapter_turn(group);
      begin_with_adapter(walk, sums, step, multiply_share);
      step += walk.sizes.adapter_steps;
    }
    wait_products_turn(group);
    for (int i = 0; i < walk.steps; ++i, ++step) {
      wait_barrier(walk.full(step), step / Shape::kStages & 1);
      if (has_adapter && i == adapter_turn_at && tile + 1 < walk.count) {
        give_adapter_turn(1 - group);
      }
      fence_products();
      multiply(sums, walk.rows(step), walk.weights(step), i == 0 && !has_adapter);
      commit_products();
      wait_products<1>();
      if (i > 0) {
        walk.release(step - 1);
      }
    }
    if (tile + 1 < walk.count) {
      give_products_turn(1 - group);
    }
    wait_products<0>();
    settle(sums[0]);
    settle(sums[1]);
    walk.release(step - 1);
    TilePlace at = walk.place(tile);
#pragma unroll
    for (int round = 0; round < Shape::kRounds; ++round) {
      wait_barrier(walk.planes_ready(group), (tile / kWorkingGroups * Shape::kRounds + round) & 1);
      finish(sums, round);
      publish_writes();
      sync_group(group);
      if (thread % kGroupThreads == 0) {
        for (int part = 0; part < kWritingParts; ++part) {
          write(at, round, part);
          if (tile + 1 < walk.count && walk.sizes.pause_ns > 0) {
            __nanosleep(static_cast<unsigned>(walk.sizes.pause_ns));
          }
        }
        wait_read();
        arrive(walk.planes_free());
      }
      __syncwarp();
    }
  }
}

// A step's products for both halves of the block's tokens: product(sums, their rows, step, whether to add).
template <typename Sums, typename Product>
__device__ inline void multiply_halves(Sums& sums, uint32_t rows, bool first, const Product& product) {
#pragma unroll
  for (int step = 0; step < kStepDepth / 16; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      product(sums[half][0], describe_rows<64>(rows + half * 64 * 2 * kStepDepth, step), step,
              step > 0 || !first ? 1 : 0);
    }
  }
}

// The same for a step of an adapter, which may be less deep.
template <typename Sums, typename Product>
__device__ inline void multiply_share_halves(const GatedSizes& sizes, Sums& sums, uint32_t rows, int step,
                                             const Product& product) {
  int slices = (min(kStepDepth, sizes.adapter_depth - step * kStepDepth) + 15) / 16;
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      product(sums[half][0], describe_rows<64>(rows + half * 64 * 2 * kStepDepth, slice), slice,
              step + slice > 0 ? 1 : 0);
    }
  }
}

#endif  // SNUG_HOPPER

// Pairs of blocks that the card has at work.
inline int working_pairs() {
  int device = 0;
  int processors = 0;
  check(cudaGetDevice(&device), "finding the card");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "looking at the card");
  return processors / kPairBlocks;
}

inline int tiles_of(int size, int tile) {
  return (size + tile - 1) / tile;
}
inline constexpr int kPairTokens = kPairBlocks * kTileTokens;

// The share of all pairs' time that has something to multiply, with tiles of so many features.
inline double filled_share(const GatedSizes& sizes, int tile_features) {
  int pairs = working_pairs();
  int tiles = tiles_of(sizes.tokens, kPairTokens) * tiles_of(sizes.features, tile_features);
  return static_cast<double>(sizes.tokens) * sizes.features /
         (static_cast<double>(tiles_of(tiles, pairs)) * pairs * kPairTokens * tile_features);
}

// Whether an adapter's share can be made in steps of the product; it adds them to the sizes. `down` is its
// down product, or the gradient of that, `weight` B or A.
inline bool add_adapter_steps(const Tensor& down, const Tensor& weight, GatedSizes& sizes) {
  sizes.adapter_depth = static_cast<int>(down.columns());
  sizes.adapter_steps = tiles_of(sizes.adapter_depth, kStepDepth);
  return has_whole_vectors(down) && has_whole_vectors(weight) && sizes.adapter_steps <= kMostAdapterSteps;
}

// Whether matrices are of 16-bit numbers and can be fetched by the copy engine.
inline bool fits_gated(std::initializer_list<Tensor> matrices) {
  const Tensor& first = *matrices.begin();
  return first.dtype != DType::f32 && std::all_of(matrices.begin(), matrices.end(), [](const Tensor& matrix) {
           return has_whole_vectors(matrix);
         });
}

inline bool is_worth_it(const GatedSizes& sizes, int tile_features) {
  return sizes.tokens >= kManyTokens ||
         (sizes.tokens >= kFewestTokens && filled_share(sizes, tile_features) >= kLeastShareOfFew);
}

// Returns launch(a number of the call's dtype, its gate's function); false for functions that have no kernel.
template <typename Launch>
bool launch_for_gate(const KernelCall& call, const Launch& launch) {
  auto launch_number = [&](auto number) {
    switch (attributes_of<GatedLinearAttributes>(call.op).gate.activation) {
      case Activation::silu:
        return launch(number, Silu{});
      case Activation::gelu_tanh:
        return launch(number, GeluTanh{});
      case Activation::gelu:
        return false;
    }
    return false;
  };
  return call.inputs[0].dtype == DType::f16 ? launch_number(__half{}) : launch_number(__nv_bfloat16{});
}

template <class Shape, typename Kernel>
bool launch_gated(Kernel* kernel, GatedSizes sizes, const GatedMaps& maps, cudaStream_t stream) {
  if (!hopper_is_built(kernel)) {
    return false;
  }
  sizes.token_tiles = tiles_of(sizes.tokens, kPairTokens);
  sizes.feature_tiles = tiles_of(sizes.features, Shape::kFeatures);
  int pairs = min(working_pairs(), sizes.token_tiles * sizes.feature_tiles);
  constexpr int kBytes = GatedMemory<Shape>::kBytes;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "a product with a gated activation");
  cudaLaunchAttribute pair{};
  pair.id = cudaLaunchAttributeClusterDimension;
  pair.val.clusterDim.x = kPairBlocks;
  pair.val.clusterDim.y = 1;
  pair.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(pairs * kPairBlocks));
  config.blockDim = dim3(kHopperThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &pair;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, sizes, maps), "a product with a gated activation");
  return true;
}

}  // namespace snug::cuda
