// Attention forward on the tensor cores of every card since Turing.
//
// A block of 4 warps takes a tile of queries of one head and walks the keys that they see, a tile at a time:
//   scores = q k^T; running maximum and sum per query; o = o * correction + exp(scores - maximum) v.
// A warp owns 16 * kRowTiles query rows: their scores and outputs stay in its registers (fp32) from tile to
// tile. Shared memory holds the queries, one tile of keys and one of values; the values travel while scores
// are made, the next keys while the values are used.
#include <limits>

#include "backend/cuda/attention/dropout.cuh"
#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/attention/softmax.cuh"
#include "backend/cuda/attention/tiles.cuh"

namespace snug::cuda {
namespace {

template <int kHeadDimension, int kTiles, int kKeyRows, bool kDrops>
struct ForwardShape {
  static constexpr bool kDropout = kDrops;
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr int kRowTiles = kTiles;
  static constexpr int kKeys = kKeyRows;
  static constexpr int kThreads = 128;
  static constexpr int kQueries = 64 * kRowTiles;
  static constexpr int kQueryBytes = kQueries * kHeadDim * 2;
  static constexpr int kKeyBytes = kKeys * kHeadDim * 2;
  static constexpr int kBytes = kQueryBytes + 2 * kKeyBytes;  // and the bias table
};

// What a warp keeps in registers.
template <class Shape>
struct ForwardState {
  Sums<Shape::kRowTiles, Shape::kHeadDim / 8> output;
  float maximum[Shape::kRowTiles][2];  // of the scores, in powers of two
  float sum[Shape::kRowTiles][2];      // this lane's share
};

template <class Shape>
__device__ inline void start(ForwardState<Shape>& state) {
  clear<Shape::kRowTiles, Shape::kHeadDim / 8>(state.output);
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
    state.maximum[r][0] = state.maximum[r][1] = -INFINITY;
    state.sum[r][0] = state.sum[r][1] = 0;
  }
}

// One tile of scores becomes weights; what was summed before is brought to the new maximum.
template <class Shape>
__device__ inline void add_to_softmax(ForwardState<Shape>& state,
                                      Sums<Shape::kRowTiles, Shape::kKeys / 8>& scores, float factor) {
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
    float correction[2];
    advance_softmax<Shape::kKeys / 8>(scores[r], state.maximum[r], state.sum[r], correction, factor);
#pragma unroll
    for (int n = 0; n < Shape::kHeadDim / 8; ++n) {
      state.output[r][n][0] *= correction[0];
      state.output[r][n][1] *= correction[0];
      state.output[r][n][2] *= correction[1];
      state.output[r][n][3] *= correction[1];
    }
  }
}

// The sums are those of all weights, as dropout follows the softmax; only values are weighted by what is
// kept. `query` is the warp's first row of q.
template <class Shape>
__device__ inline void drop_weights(const AttentionArguments& a,
                                    Sums<Shape::kRowTiles, Shape::kKeys / 8>& weights, int query, int head,
                                    int first_key) {
  WeightMask mask(a);
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
    mask.drop_rows(weights[r], query + 16 * r, head, first_key);
  }
}

// o [T, heads * head_dim] and lse [T, heads], both written.
template <typename T, class Shape>
__device__ inline void finish(const AttentionArguments& a, const Work& work, ForwardState<Shape>& state,
                              int row) {
  int lane = static_cast<int>(threadIdx.x & 31);
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
#pragma unroll
  for (int r = 0; r < Shape::kRowTiles; ++r) {
    int query = work.first + row + 16 * r;
    int64_t global_row = work.query_row + query;
    float2 factors;
    float2 lse;
    finish_softmax(state.maximum[r], state.sum[r], factors, lse);
    store_rows<T, Shape::kHeadDim>(state.output[r],
                                   static_cast<T*>(a.p.o) + global_row * width + work.head * a.p.head_dim,
                                   width, work.queries - query, a.p.head_dim, factors);
    if ((lane & 3) == 0) {
      int mine = lane >> 2;
      float* to = a.p.lse + (global_row + mine) * a.p.heads + work.head;
      if (query + mine < work.queries) {
        to[0] = lse.x;
      }
      if (query + mine + 8 < work.queries) {
        to[8 * static_cast<int64_t>(a.p.heads)] = lse.y;
      }
    }
  }
}

template <typename T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    forward_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  Work work;
  if (!find_query_work(a, Shape::kQueries, work)) {
    return;
  }
  int thread = static_cast<int>(threadIdx.x);
  uint32_t q_tile = shared_address(shared);
  uint32_t k_tile = q_tile + Shape::kQueryBytes;
  uint32_t v_tile = k_tile + Shape::kKeyBytes;
  auto* bias = reinterpret_cast<float*>(shared + Shape::kBytes);
  int row = (thread >> 5) * 16 * Shape::kRowTiles;
  int64_t kv_column = static_cast<int64_t>(work.head / a.group) * a.p.head_dim;
  Range keys = keys_of_queries(a, work, Shape::kQueries);
  if constexpr (Shape::kDropout) {
    keys.first &= ~3;
  }

  auto load_keys = [&](const void* data, uint32_t tile, int first) {
    load_tile<Shape::kKeys, Shape::kHeadDim, Shape::kThreads>(
        tile,
        rows_of<T>(data, a.p.kv_stride, work.key_row + first, kv_column, work.keys - first, a.p.head_dim),
        thread);
    commit_copies();
  };
  load_tile<Shape::kQueries, Shape::kHeadDim, Shape::kThreads>(
      q_tile,
      rows_of<T>(a.p.q, a.p.q_stride, work.query_row + work.first,
                 static_cast<int64_t>(work.head) * a.p.head_dim, work.queries - work.first, a.p.head_dim),
      thread);
  if (keys.first < keys.last) {
    load_keys(a.p.k, k_tile, keys.first);
  }
  if (a.p.bias != nullptr) {
    fill_bias_table<T>(a, work.head, bias);
  }

  ForwardState<Shape> state;
  start(state);
  for (int first = keys.first; first < keys.last; first += Shape::kKeys) {
    wait_copies<0>();
    __syncthreads();  // the keys are here, and all warps are done with the values before
    load_keys(a.p.v, v_tile, first);
    Sums<Shape::kRowTiles, Shape::kKeys / 8> scores;
    multiply_rows<T, Shape::kQueries, Shape::kHeadDim, Shape::kRowTiles, Shape::kKeys / 8>(scores, q_tile,
                                                                                           row, k_tile);
    ScoreBlock block{first, work.first + row + work.shift, work.keys};
    float factor = finish_scores<false, true, Shape::kRowTiles, Shape::kKeys / 8>(a, scores, block, bias);
    wait_copies<0>();
    __syncthreads();  // the values are here, and all warps are done with the keys
    if (first + Shape::kKeys < keys.last) {
      load_keys(a.p.k, k_tile, first + Shape::kKeys);
    }
    add_to_softmax(state, scores, factor);
    if constexpr (Shape::kDropout) {
      drop_weights<Shape>(a, scores, work.query_row + work.first + row, work.head, first);
    }
    add_weighted_rows<T, Shape::kRowTiles, Shape::kKeys / 8, Shape::kHeadDim / 8>(state.output, scores,
                                                                                  v_tile);
  }
  wait_copies<0>();
  finish<T>(a, work, state, row);
}

template <typename T, class Shape>
cudaError_t launch(const AttentionArguments& a, cudaStream_t stream) {
  int bytes = Shape::kBytes + bias_table_bytes(a.p);
  int64_t blocks = tile_slots(a.p.queries, a.p.sequences, Shape::kQueries) * a.p.heads;
  return launch_attention(forward_kernel<T, Shape>, a, {blocks, Shape::kThreads, bytes}, stream);
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
    using Shape = ForwardShape<64, 2, 64, kDropout>;
    return launch_fitting<T, Shape, Shape>(a, shared_limit_bytes, stream);
  }
  if (a.p.head_dim <= 128) {
    return launch_fitting<T, ForwardShape<128, 2, 64, kDropout>, ForwardShape<128, 1, 64, kDropout>>(
        a, shared_limit_bytes, stream);
  }
  return launch_fitting<T, ForwardShape<256, 1, 64, kDropout>, ForwardShape<256, 1, 16, kDropout>>(
      a, shared_limit_bytes, stream);
}

}  // namespace

cudaError_t tensor_core_forward(const AttentionArguments& a, int64_t shared_limit_bytes,
                                cudaStream_t stream) {
  return for_half_precision(a, [&](auto number, auto dropout) {
    return launch_for_head<decltype(number), decltype(dropout)::value>(a, shared_limit_bytes, stream);
  });
}

}  // namespace snug::cuda
