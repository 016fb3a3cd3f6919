// The gradient of attention's queries on the tensor cores of every card since Turing, and that of T5's bias.
//
// A block takes a tile of queries of one head, 16 rows a warp, and walks the keys that they see:
//   p = exp(scale * q k^T + bias - lse), dscores = p * (do v^T - sum(o * do)), dq += scale * dscores k, and
//   dbias += dscores; with dropout, do v^T is masked. Sums are fp32, in registers. Keys and their gradients
//   belong to another kernel
// (backward_keys.cu), which makes the scores again: the price of sums without atomics.
#include "backend/cuda/attention/bias_gradient.cuh"
#include "backend/cuda/attention/dropout.cuh"
#include "backend/cuda/attention/gradient.cuh"
#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/attention/tiles.cuh"

namespace snug::cuda {
namespace {

template <int kHeadDimension, int kWarpCount, int kKeyRows, int kStageCount, bool kDrops>
struct QueryShape {
  static constexpr bool kDropout = kDrops;
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr int kThreads = 32 * kWarpCount;
  static constexpr int kQueries = 16 * kWarpCount;
  static constexpr int kKeys = kKeyRows;
  static constexpr int kStages = kStageCount;  // tiles of keys and values in shared memory
  static constexpr int kQueryBytes = kQueries * kHeadDim * 2;
  static constexpr int kKeyBytes = kKeys * kHeadDim * 2;
  static constexpr int kBytes = 2 * kQueryBytes + 2 * kStages * kKeyBytes;

  static int bytes(const AttentionParameters& p) {
    return kBytes + bias_table_bytes(p) + BiasGradient<kThreads>::bytes(p);
  }
};

template <typename T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    queries_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr int kBlocks = Shape::kKeys / 8;
  Work work;
  if (!find_query_work(a, Shape::kQueries, work)) {
    clear_bias_partial(a, work.slot, work.head);
    return;
  }
  int thread = static_cast<int>(threadIdx.x);
  int row = (thread >> 5) * 16;
  uint32_t q_tile = shared_address(shared);
  uint32_t do_tile = q_tile + Shape::kQueryBytes;
  uint32_t stages = do_tile + Shape::kQueryBytes;
  auto* bias = reinterpret_cast<float*>(shared + Shape::kBytes);
  BiasGradient<Shape::kThreads> dbias;
  int64_t column = static_cast<int64_t>(work.head) * a.p.head_dim;
  int64_t kv_column = static_cast<int64_t>(work.head / a.group) * a.p.head_dim;
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  int64_t query_row = work.query_row + work.first;
  Range keys = keys_of_queries(a, work, Shape::kQueries);
  if constexpr (Shape::kDropout) {
    keys.first &= ~3;
  }

  auto load_keys = [&](int first, int stage) {
    uint32_t tile = stages + 2 * stage * Shape::kKeyBytes;
    int64_t key_row = work.key_row + first;
    int count = work.keys - first;
    load_tile<Shape::kKeys, Shape::kHeadDim, Shape::kThreads>(
        tile, rows_of<T>(a.p.k, a.p.kv_stride, key_row, kv_column, count, a.p.head_dim), thread);
    load_tile<Shape::kKeys, Shape::kHeadDim, Shape::kThreads>(
        tile + Shape::kKeyBytes, rows_of<T>(a.p.v, a.p.kv_stride, key_row, kv_column, count, a.p.head_dim),
        thread);
  };
  int count = work.queries - work.first;
  load_tile<Shape::kQueries, Shape::kHeadDim, Shape::kThreads>(
      q_tile, rows_of<T>(a.p.q, a.p.q_stride, query_row, column, count, a.p.head_dim), thread);
  load_tile<Shape::kQueries, Shape::kHeadDim, Shape::kThreads>(
      do_tile, rows_of<T>(a.p.dout, width, query_row, column, count, a.p.head_dim), thread);
  if (a.p.bias != nullptr) {
    fill_bias_table<T>(a, work.head, bias);
  }
  if (a.p.dbias != nullptr) {
    dbias.start(a, shared + Shape::kBytes + bias_table_bytes(a.p), thread);
  }

  LaneRows rows(a, work, row);
  Sums<1, Shape::kHeadDim / 8> dq;
  clear<1, Shape::kHeadDim / 8>(dq);
  if (Shape::kStages == 2 && keys.first < keys.last) {
    load_keys(keys.first, 0);
  }
  commit_copies();
  int stage = 0;
  for (int first = keys.first; first < keys.last; first += Shape::kKeys) {
    int wanted = Shape::kStages == 2 ? first + Shape::kKeys : first;
    if (wanted < keys.last) {
      load_keys(wanted, Shape::kStages == 2 ? stage ^ 1 : 0);
    }
    commit_copies();
    wait_copies<Shape::kStages - 1>();
    __syncthreads();
    uint32_t k_tile = stages + 2 * stage * Shape::kKeyBytes;
    Sums<1, kBlocks> scores;
    Sums<1, kBlocks> dweights;
    multiply_rows<T, Shape::kQueries, Shape::kHeadDim, 1, kBlocks>(scores, q_tile, row, k_tile);
    multiply_rows<T, Shape::kQueries, Shape::kHeadDim, 1, kBlocks>(dweights, do_tile, row,
                                                                   k_tile + Shape::kKeyBytes);
    ScoreBlock block{first, work.first + row + work.shift, work.keys};
    float factor = finish_scores<false, true, 1, kBlocks>(a, scores, block, bias);
    make_weights_of_rows<kBlocks>(scores, rows, factor);
    if constexpr (Shape::kDropout) {
      WeightMask(a).drop_rows(dweights[0], static_cast<int>(query_row) + row, work.head, first);
    }
    make_dscores_of_rows<kBlocks>(scores, dweights, rows);
    if (a.p.dbias != nullptr) {
      dbias.template add<false>(a, scores[0], block, thread);
    }
    add_weighted_rows<T, 1, kBlocks, Shape::kHeadDim / 8>(dq, scores, k_tile);
    __syncthreads();
    stage = Shape::kStages == 2 ? stage ^ 1 : 0;
  }
  wait_copies<0>();
  store_rows<T, Shape::kHeadDim>(dq[0], static_cast<T*>(a.p.dq) + (query_row + row) * a.p.dq_stride + column,
                                 a.p.dq_stride, count - row, a.p.head_dim, make_float2(a.p.scale, a.p.scale));
  if (a.p.dbias != nullptr) {
    __syncthreads();
    dbias.finish(a, bias_partial(a, work.slot, work.head), thread);
  }
}

template <typename T, class Shape>
cudaError_t launch(const AttentionArguments& a, cudaStream_t stream) {
  int64_t tiles = tile_slots(a.p.queries, a.p.sequences, Shape::kQueries);
  LaunchShape shape{tiles * a.p.heads, Shape::kThreads, Shape::bytes(a.p)};
  cudaError_t status = launch_attention(queries_kernel<T, Shape>, a, shape, stream);
  return status == cudaSuccess && a.p.dbias != nullptr ? reduce_bias_gradient(a, tiles, stream) : status;
}

// The larger tile if the card has room for it.
template <typename T, class Large, class Small>
cudaError_t launch_fitting(const AttentionArguments& a, int64_t shared_limit_bytes, cudaStream_t stream) {
  return Large::bytes(a.p) <= shared_limit_bytes ? launch<T, Large>(a, stream) : launch<T, Small>(a, stream);
}

template <typename T, bool kDropout>
cudaError_t launch_for_head(const AttentionArguments& a, int64_t shared_limit_bytes, cudaStream_t stream) {
  if (a.p.head_dim <= 64) {
    return launch_fitting<T, QueryShape<64, 4, 64, 2, kDropout>, QueryShape<64, 4, 32, 1, kDropout>>(
        a, shared_limit_bytes, stream);
  }
  if (a.p.head_dim <= 128) {
    return launch_fitting<T, QueryShape<128, 4, 32, 2, kDropout>, QueryShape<128, 2, 32, 1, kDropout>>(
        a, shared_limit_bytes, stream);
  }
  return launch_fitting<T, QueryShape<256, 4, 32, 1, kDropout>, QueryShape<256, 2, 16, 1, kDropout>>(
      a, shared_limit_bytes, stream);
}

}  // namespace

cudaError_t tensor_core_backward_queries(const AttentionArguments& a, int64_t shared_limit_bytes,
                                         cudaStream_t stream) {
  return for_half_precision(a, [&](auto number, auto dropout) {
    return launch_for_head<decltype(number), decltype(dropout)::value>(a, shared_limit_bytes, stream);
  });
}

}  // namespace snug::cuda
