// The gradients of attention's keys and values on the tensor cores of every card since Turing.
//
// A block takes a tile of keys of one kv head, 16 rows a warp, and walks the queries that see them, of all
// query heads of the group in order. Scores are made transposed, keys as rows, so that they are left operands
// where they are: p^T = exp(scale * k q^T + bias - lse), dscores^T = p^T * (v do^T - sum(o * do)), dv += p^T
// do, dk += scale * dscores^T q; with dropout, p^T in dv and v do^T are masked. Sums are fp32, in registers;
// for heads above 128 there is room for one of the two, and separate blocks make dv and dk.
#include "backend/cuda/attention/dropout.cuh"
#include "backend/cuda/attention/gradient.cuh"
#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/attention/tiles.cuh"

namespace snug::cuda {
namespace {

template <int kHeadDimension, int kWarpCount, int kQueryRows, int kStageCount, bool kDrops>
struct KeyShape {
  static constexpr bool kDropout = kDrops;
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr int kThreads = 32 * kWarpCount;
  static constexpr int kKeys = 16 * kWarpCount;
  static constexpr int kQueries = kQueryRows;
  static constexpr int kStages = kStageCount;  // tiles of queries and output gradients in shared memory
  static constexpr bool kSeparate = kHeadDim > 128;
  static constexpr int kKeyBytes = kKeys * kHeadDim * 2;
  static constexpr int kQueryBytes = kQueries * kHeadDim * 2;
  static constexpr int kStageBytes = 2 * kQueryBytes + kQueries * 8;
  // Tiles first, for their alignment; then the rows' log-sum-exps and sums.
  static constexpr int kBytes = 2 * kKeyBytes + kStages * kStageBytes;
};

// What a block works on, and the walk over its queries: all tiles of the group's first head, then the next.
template <typename T, class Shape>
struct KeyWalk {
  const AttentionArguments& a;
  Work work;
  Range queries;
  int tiles = 0;  // a head

  __device__ int steps() const { return tiles * a.group; }
  __device__ int head(int step) const { return work.head * a.group + step / tiles; }
  __device__ int first(int step) const { return queries.first + step % tiles * Shape::kQueries; }

  // Shared memory: k, v, then per stage q and do, then per stage the rows.
  __device__ void load(int step, int stage, uint32_t memory) const {
    int thread = static_cast<int>(threadIdx.x);
    uint32_t tile = memory + 2 * Shape::kKeyBytes + 2 * stage * Shape::kQueryBytes;
    uint32_t rows =
        memory + 2 * Shape::kKeyBytes + 2 * Shape::kStages * Shape::kQueryBytes + stage * Shape::kQueries * 8;
    int64_t row = work.query_row + first(step);
    int64_t column = static_cast<int64_t>(head(step)) * a.p.head_dim;
    int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
    int count = work.queries - first(step);
    load_tile<Shape::kQueries, Shape::kHeadDim, Shape::kThreads>(
        tile, rows_of<T>(a.p.q, a.p.q_stride, row, column, count, a.p.head_dim), thread);
    load_tile<Shape::kQueries, Shape::kHeadDim, Shape::kThreads>(
        tile + Shape::kQueryBytes, rows_of<T>(a.p.dout, width, row, column, count, a.p.head_dim), thread);
    if (thread < Shape::kQueries) {
      const float2* from = a.rows + head(step) * a.p.queries + row;
      copy_pair(rows + thread * 8, thread < count ? from + thread : from, thread < count);
    }
  }
};

template <typename T, class Shape, bool kValues, bool kKeys>
__device__ inline void run(const KeyWalk<T, Shape>& walk, unsigned char* shared) {
  constexpr int kBlocks = Shape::kQueries / 8;
  constexpr int kWidth = Shape::kHeadDim / 8;
  const AttentionArguments& a = walk.a;
  const Work& work = walk.work;
  int row = static_cast<int>(threadIdx.x >> 5) * 16;
  uint32_t k_tile = shared_address(shared);
  uint32_t v_tile = k_tile + Shape::kKeyBytes;
  auto* bias = reinterpret_cast<float*>(shared + Shape::kBytes);
  int biased_head = -1;
  Sums<1, kValues ? kWidth : 1> dv;
  Sums<1, kKeys ? kWidth : 1> dk;
  clear<1, kValues ? kWidth : 1>(dv);
  clear<1, kKeys ? kWidth : 1>(dk);
  if (Shape::kStages == 2 && walk.steps() > 0) {
    walk.load(0, 0, k_tile);
  }
  commit_copies();
  for (int step = 0; step < walk.steps(); ++step) {
    int stage = Shape::kStages == 2 ? step & 1 : 0;
    int wanted = Shape::kStages == 2 ? step + 1 : step;
    if (wanted < walk.steps()) {
      walk.load(wanted, Shape::kStages == 2 ? stage ^ 1 : 0, k_tile);
    }
    commit_copies();
    if (a.p.bias != nullptr && walk.head(step) != biased_head) {
      biased_head = walk.head(step);
      fill_bias_table<T>(a, biased_head, bias);
    }
    wait_copies<Shape::kStages - 1>();
    __syncthreads();
    uint32_t q_tile = k_tile + 2 * Shape::kKeyBytes + 2 * stage * Shape::kQueryBytes;
    auto* rows = reinterpret_cast<const float2*>(shared + 2 * Shape::kKeyBytes +
                                                 2 * Shape::kStages * Shape::kQueryBytes) +
                 stage * Shape::kQueries;
    Sums<1, kBlocks> weights;
    multiply_rows<T, Shape::kKeys, Shape::kHeadDim, 1, kBlocks>(weights, k_tile, row, q_tile);
    ScoreBlock block{work.first + row, walk.first(step) + work.shift, work.keys};
    float factor = finish_scores<true, true, 1, kBlocks>(a, weights, block, bias);
    make_weights_of_columns(weights, rows, factor);
    [[maybe_unused]] uint32_t kept = 0;
    if constexpr (Shape::kDropout) {
      kept = WeightMask(a).kept_of_columns<kBlocks>(work.query_row + walk.first(step), walk.head(step),
                                                    work.first + row);
    }
    if constexpr (kValues && Shape::kDropout) {
      Sums<1, kBlocks> left;
      WeightMask(a).apply(weights[0], kept, left[0]);
      add_weighted_rows<T, 1, kBlocks, kWidth>(dv, left, q_tile + Shape::kQueryBytes);
    } else if constexpr (kValues) {
      add_weighted_rows<T, 1, kBlocks, kWidth>(dv, weights, q_tile + Shape::kQueryBytes);
    }
    if constexpr (kKeys) {
      Sums<1, kBlocks> dweights;
      multiply_rows<T, Shape::kKeys, Shape::kHeadDim, 1, kBlocks>(dweights, v_tile, row,
                                                                  q_tile + Shape::kQueryBytes);
      if constexpr (Shape::kDropout) {
        WeightMask(a).apply(dweights[0], kept, dweights[0]);
      }
      make_dscores_of_columns(dweights, weights, rows);
      add_weighted_rows<T, 1, kBlocks, kWidth>(dk, dweights, q_tile);
    }
    __syncthreads();
  }
  wait_copies<0>();
  int64_t at =
      (work.key_row + work.first + row) * a.p.dkv_stride + static_cast<int64_t>(work.head) * a.p.head_dim;
  int count = work.keys - work.first - row;
  if constexpr (kValues) {
    store_rows<T, Shape::kHeadDim>(dv[0], static_cast<T*>(a.p.dv) + at, a.p.dkv_stride, count, a.p.head_dim,
                                   make_float2(1, 1));
  }
  if constexpr (kKeys) {
    store_rows<T, Shape::kHeadDim>(dk[0], static_cast<T*>(a.p.dk) + at, a.p.dkv_stride, count, a.p.head_dim,
                                   make_float2(a.p.scale, a.p.scale));
  }
}

template <typename T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads) keys_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  KeyWalk<T, Shape> walk{a};
  if (!find_key_work(a, Shape::kKeys, static_cast<int>(blockIdx.x), walk.work)) {
    return;
  }
  const Work& work = walk.work;
  walk.queries = queries_of_keys(a, work, Shape::kKeys);
  walk.tiles = max(0, walk.queries.last - walk.queries.first + Shape::kQueries - 1) / Shape::kQueries;
  int64_t row = work.key_row + work.first;
  int64_t column = static_cast<int64_t>(work.head) * a.p.head_dim;
  int count = work.keys - work.first;
  int thread = static_cast<int>(threadIdx.x);
  uint32_t k_tile = shared_address(shared);
  load_tile<Shape::kKeys, Shape::kHeadDim, Shape::kThreads>(
      k_tile, rows_of<T>(a.p.k, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
  load_tile<Shape::kKeys, Shape::kHeadDim, Shape::kThreads>(
      k_tile + Shape::kKeyBytes, rows_of<T>(a.p.v, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
  if constexpr (Shape::kSeparate) {
    if (blockIdx.y == 0) {
      run<T, Shape, true, false>(walk, shared);
    } else {
      run<T, Shape, false, true>(walk, shared);
    }
  } else {
    run<T, Shape, true, true>(walk, shared);
  }
}

template <typename T, class Shape>
cudaError_t launch(const AttentionArguments& a, cudaStream_t stream) {
  int64_t blocks = tile_slots(a.p.keys, a.p.sequences, Shape::kKeys) * a.p.kv_heads;
  LaunchShape shape{blocks, Shape::kThreads, Shape::kBytes + bias_table_bytes(a.p), Shape::kSeparate ? 2 : 1};
  return launch_attention(keys_kernel<T, Shape>, a, shape, stream);
}

// The larger tile if the card has room for it.
template <typename T, class Large, class Small>
cudaError_t launch_fitting(const AttentionArguments& a, int64_t shared_limit_bytes, cudaStream_t stream) {
  if (Large::kBytes + bias_table_bytes(a.p) <= shared_limit_bytes) {
    return launch<T, Large>(a, stream);
  }
  return launch<T, Small>(a, stream);
}

template <typename T, bool kDropout>
cudaError_t launch_for_head(const AttentionArguments& a, int64_t shared_limit_bytes, cudaStream_t stream) {
  if (a.p.head_dim <= 64) {
    return launch_fitting<T, KeyShape<64, 4, 64, 2, kDropout>, KeyShape<64, 4, 32, 1, kDropout>>(
        a, shared_limit_bytes, stream);
  }
  if (a.p.head_dim <= 128) {
    return launch_fitting<T, KeyShape<128, 4, 32, 2, kDropout>, KeyShape<128, 4, 32, 1, kDropout>>(
        a, shared_limit_bytes, stream);
  }
  return launch_fitting<T, KeyShape<256, 4, 32, 1, kDropout>, KeyShape<256, 2, 16, 1, kDropout>>(
      a, shared_limit_bytes, stream);
}

}  // namespace

cudaError_t tensor_core_backward_keys(const AttentionArguments& a, int64_t shared_limit_bytes,
                                      cudaStream_t stream) {
  return for_half_precision(a, [&](auto number, auto dropout) {
    return launch_for_head<decltype(number), decltype(dropout)::value>(a, shared_limit_bytes, stream);
  });
}

}  // namespace snug::cuda
