// The gradient of attention's queries and of T5's bias on Hopper: as in attention_backward_queries.cu, with
// one warpgroup that fetches keys and values and two that work, 64 queries each.
#include "backend/cuda/attention/bias_gradient.cuh"
#include "backend/cuda/attention/gradient.cuh"
#include "backend/cuda/attention/hopper.cuh"
#include "backend/cuda/attention/kernels.h"

namespace snug::cuda {
namespace {

template <int kHeadDimension>
struct HopperQueryShape : RegisterSplit<40, 232> {
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr int kGroupQueries = 64;
  static constexpr int kQueries = kGroupQueries * kWorkingGroups;
  static constexpr int kKeys = kHeadDim == 64 ? 128 : 64;  // as many as registers allow
  static constexpr int kStages = 3;
  static constexpr int kGroupBytes = kGroupQueries * kHeadDim * 2;
  static constexpr int kKeyBytes = kKeys * kHeadDim * 2;
  // Per group queries and output gradients; the ring of keys and values; its barriers; then the bias's
  // tables.
  static constexpr int kKeysAt = 2 * kWorkingGroups * kGroupBytes;
  static constexpr int kBarriersAt = kKeysAt + 2 * kStages * kKeyBytes;
  static constexpr int kBytes = (kBarriersAt + kStages * 16 + 127) / 128 * 128;
};

using WorkingBiasGradient = BiasGradient<kGroupThreads * kWorkingGroups>;

#ifdef SNUG_HOPPER

template <class Shape>
struct QueryBlock {
  const AttentionArguments& a;
  Work work;
  Range keys;
  int tiles = 0;
  uint32_t memory = 0;
  Ring<Shape::kStages> ring;

  __device__ uint32_t k_tile(int tile) const {
    return memory + Shape::kKeysAt + tile % Shape::kStages * 2 * Shape::kKeyBytes;
  }
  __device__ int first_key(int tile) const { return keys.first + tile * Shape::kKeys; }
};

template <typename T, class Shape>
__device__ inline void fetch(const QueryBlock<Shape>& block) {
  const AttentionArguments& a = block.a;
  int64_t column = static_cast<int64_t>(block.work.head / a.group) * a.p.head_dim;
  int thread = static_cast<int>(threadIdx.x);
  Fetcher fetcher;
  for (int tile = 0; tile < block.tiles; ++tile) {
    fetcher.wait_room(block.ring, tile);
    int64_t row = block.work.key_row + block.first_key(tile);
    int count = block.work.keys - block.first_key(tile);
    load_tile<Shape::kKeys, Shape::kHeadDim, kGroupThreads>(
        block.k_tile(tile), rows_of<T>(a.p.k, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
    load_tile<Shape::kKeys, Shape::kHeadDim, kGroupThreads>(
        block.k_tile(tile) + Shape::kKeyBytes,
        rows_of<T>(a.p.v, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
    fetcher.announce(block.ring, tile);
  }
  fetcher.finish();
}

// Loads the group's queries and output gradients.
template <typename T, class Shape>
__device__ inline void load_queries(const QueryBlock<Shape>& block, int group, uint32_t q_tile) {
  const AttentionArguments& a = block.a;
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  int first = block.work.first + group * Shape::kGroupQueries;
  int64_t row = block.work.query_row + first;
  int count = block.work.queries - first;
  int64_t column = static_cast<int64_t>(block.work.head) * a.p.head_dim;
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  load_tile<Shape::kGroupQueries, Shape::kHeadDim, kGroupThreads>(
      q_tile, rows_of<T>(a.p.q, a.p.q_stride, row, column, count, a.p.head_dim), thread);
  load_tile<Shape::kGroupQueries, Shape::kHeadDim, kGroupThreads>(
      q_tile + Shape::kGroupBytes, rows_of<T>(a.p.dout, width, row, column, count, a.p.head_dim), thread);
  commit_copies();
  wait_copies<0>();
  publish_writes();
  sync_group(group);
}

template <typename T, class Shape>
__device__ inline void make_dq(const QueryBlock<Shape>& block, const float* bias,
                               unsigned char* dbias_memory) {
  constexpr int kKeyBlocks = Shape::kKeys / 8;
  const AttentionArguments& a = block.a;
  const Work& work = block.work;
  int thread = static_cast<int>(threadIdx.x) - kGroupThreads;
  int group = thread / kGroupThreads;
  int row = thread / 32 * 16;
  uint32_t q_tile = block.memory + 2 * group * Shape::kGroupBytes;
  load_queries<T>(block, group, q_tile);
  WorkingBiasGradient dbias;
  if (a.p.dbias != nullptr) {
    dbias.start(a, dbias_memory, thread);
    sync_working();
  }
  LaneRows rows(a, work, row);
  Sums<1, Shape::kHeadDim / 8> dq;
  Sums<1, kKeyBlocks> scores;
  Sums<1, kKeyBlocks> dweights;
  uint32_t dscores[kKeyBlocks / 2][4];
  clear<1, Shape::kHeadDim / 8>(dq);
  for (int tile = 0; tile < block.tiles; ++tile) {
    block.ring.wait_full(tile);
    ScoreBlock place{block.first_key(tile), work.first + group * Shape::kGroupQueries + work.shift,
                     work.keys};
    if (is_hidden(a, place, Shape::kGroupQueries, Shape::kKeys)) {
      block.ring.release(tile);
      continue;
    }
    fence_products();
    start_product_of_rows<T, Shape::kGroupQueries, Shape::kHeadDim>(scores, q_tile, block.k_tile(tile));
    start_product_of_rows<T, Shape::kGroupQueries, Shape::kHeadDim>(dweights, q_tile + Shape::kGroupBytes,
                                                                    block.k_tile(tile) + Shape::kKeyBytes);
    wait_products<1>();
    settle(scores);
    place.query_position = work.first + row + work.shift;
    float factor = finish_scores<false, 1, kKeyBlocks>(a, scores, place, bias);
    make_weights_of_rows<kKeyBlocks>(scores, rows, factor);
    wait_products<0>();
    settle(dweights);
    make_dscores_of_rows<kKeyBlocks>(scores, dweights, rows);
    if (a.p.dbias != nullptr) {
      dbias.add(a, scores[0], place, thread);
    }
    pack_weights<T>(dscores, scores);
    fence_products();
    start_weighted_rows<T>(dq, dscores, block.k_tile(tile));
    wait_products<0>();
    settle(dq);
    block.ring.release(tile);
  }
  int query = work.first + row;
  store_rows<T, Shape::kHeadDim>(dq[0],
                                 static_cast<T*>(a.p.dq) + (work.query_row + query) * a.p.dq_stride +
                                     static_cast<int64_t>(work.head) * a.p.head_dim,
                                 a.p.dq_stride, work.queries - query, a.p.head_dim,
                                 make_float2(a.p.scale, a.p.scale));
  if (a.p.dbias != nullptr) {
    sync_working();
    dbias.finish(a, bias_partial(a, work), thread);
  }
}

#endif  // SNUG_HOPPER

template <typename T, class Shape>
__global__ void SNUG_HOPPER_BOUNDS hopper_queries_kernel(const __grid_constant__ AttentionArguments a) {
#ifdef SNUG_HOPPER
  extern __shared__ __align__(1024) unsigned char shared[];
  QueryBlock<Shape> block{a};
  if (!find_query_work(a, Shape::kQueries, block.work)) {
    clear_bias_partial(a, block.work);
    return;
  }
  block.keys = keys_of_queries(a, block.work, Shape::kQueries);
  block.tiles = max(0, block.keys.last - block.keys.first + Shape::kKeys - 1) / Shape::kKeys;
  block.memory = shared_address(shared);
  block.ring.start(block.memory + Shape::kBarriersAt);
  auto* bias = reinterpret_cast<float*>(shared + Shape::kBytes);
  fill_bias_table<T>(a, block.work.head, bias);
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    fetch<T>(block);
  } else {
    grow_registers<Shape::kWorkingRegisters>();
    make_dq<T>(block, bias, shared + Shape::kBytes + bias_table_bytes(a.p));
  }
#endif
}

template <typename T, class Shape>
bool launch(const AttentionArguments& a, cudaStream_t stream, cudaError_t& status) {
  if (!hopper_is_built(hopper_queries_kernel<T, Shape>)) {
    return false;
  }
  int64_t tiles = tile_slots(a.p.queries, a.p.sequences, Shape::kQueries);
  LaunchShape shape{tiles * a.p.heads, kHopperThreads,
                    Shape::kBytes + bias_table_bytes(a.p) + WorkingBiasGradient::bytes(a.p)};
  status = launch_attention(hopper_queries_kernel<T, Shape>, a, shape, stream);
  if (status == cudaSuccess && a.p.dbias != nullptr) {
    status = reduce_bias_gradient(a, tiles, stream);
  }
  return true;
}

}  // namespace

bool hopper_backward_queries(const AttentionArguments& a, cudaStream_t stream, cudaError_t& status) {
  return launch_on_hopper(a, [&](auto number, auto head) {
    return launch<decltype(number), HopperQueryShape<decltype(head)::value>>(a, stream, status);
  });
}

}  // namespace snug::cuda
