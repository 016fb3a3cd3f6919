// The gradients of attention's keys and values on Hopper: as in attention_backward_keys.cu, with one
// warpgroup that fetches queries and output gradients and two that work, 64 keys each. Where there are few
// tiles of keys (few kv heads, short batches), a cluster of blocks shares each tile: every block takes a part
// of the queries, and at the end the blocks add up their sums through each other's shared memory, in order.
#include "backend/cuda/attention/gradient.cuh"
#include "backend/cuda/attention/hopper.cuh"
#include "backend/cuda/attention/kernels.h"

namespace snug::cuda {
namespace {

constexpr int kLargestCluster = 8;
constexpr int kHopperProcessors = 132;

template <int kHeadDimension>
struct HopperKeyShape : RegisterSplit<24, 240> {
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr int kGroupKeys = 64;
  static constexpr int kKeys = kGroupKeys * kWorkingGroups;
  static constexpr int kQueries = 64;
  static constexpr int kStages = 3;
  static constexpr int kGroupBytes = kGroupKeys * kHeadDim * 2;
  static constexpr int kQueryBytes = kQueries * kHeadDim * 2;
  // Per group keys and values; the ring of queries and output gradients, then that of their log-sum-exps and
  // sums; the barriers; then a bias table for each head of the group.
  static constexpr int kQueriesAt = 2 * kWorkingGroups * kGroupBytes;
  static constexpr int kRowsAt = kQueriesAt + 2 * kStages * kQueryBytes;
  static constexpr int kBarriersAt = kRowsAt + kStages * kQueries * 8;
  static constexpr int kBytes = (kBarriersAt + kStages * 16 + 127) / 128 * 128;
  // What a cluster adds up: dk and dv of the tile in fp32, over everything else. The pitch avoids bank
  // conflicts.
  static constexpr int kPitch = kHeadDim + 8;
  static_assert(2 * kKeys * kPitch * 4 <= kBytes);
};

#ifdef SNUG_HOPPER

// The walk over the queries: all tiles of the group's first head, then the next; a block of a cluster takes
// the steps [begin, end) of it.
template <class Shape>
struct KeyBlock {
  const AttentionArguments& a;
  Work work;
  Range queries;
  int tiles = 0;  // a head
  int begin = 0;
  int end = 0;
  unsigned char* shared = nullptr;
  uint32_t memory = 0;
  Ring<Shape::kStages> ring;

  __device__ int first(int step) const { return queries.first + step % tiles * Shape::kQueries; }
  __device__ uint32_t q_tile(int step) const {
    return memory + Shape::kQueriesAt + (step - begin) % Shape::kStages * 2 * Shape::kQueryBytes;
  }
  __device__ int rows_at(int step) const {
    return Shape::kRowsAt + (step - begin) % Shape::kStages * Shape::kQueries * 8;
  }
};

template <typename T, class Shape>
__device__ inline void fetch(const KeyBlock<Shape>& block) {
  const AttentionArguments& a = block.a;
  int thread = static_cast<int>(threadIdx.x);
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  Fetcher fetcher;
  for (int step = block.begin; step < block.end; ++step) {
    int first = block.first(step);
    int head = block.work.head * a.group + step / block.tiles;
    int64_t row = block.work.query_row + first;
    int64_t column = static_cast<int64_t>(head) * a.p.head_dim;
    int count = block.work.queries - first;
    uint32_t tile = block.q_tile(step);
    fetcher.wait_room(block.ring, step - block.begin);
    load_tile<Shape::kQueries, Shape::kHeadDim, kGroupThreads>(
        tile, rows_of<T>(a.p.q, a.p.q_stride, row, column, count, a.p.head_dim), thread);
    load_tile<Shape::kQueries, Shape::kHeadDim, kGroupThreads>(
        tile + Shape::kQueryBytes, rows_of<T>(a.p.dout, width, row, column, count, a.p.head_dim), thread);
    if (thread < Shape::kQueries) {
      const float2* from = a.rows + head * a.p.queries + row;
      copy_pair(block.memory + block.rows_at(step) + thread * 8, thread < count ? from + thread : from,
                thread < count);
    }
    fetcher.announce(block.ring, step - block.begin);
  }
  fetcher.finish();
}

// Loads the group's keys and values.
template <typename T, class Shape>
__device__ inline void load_keys(const KeyBlock<Shape>& block, int group, uint32_t k_tile) {
  const AttentionArguments& a = block.a;
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  int first = block.work.first + group * Shape::kGroupKeys;
  int64_t row = block.work.key_row + first;
  int count = block.work.keys - first;
  int64_t column = static_cast<int64_t>(block.work.head) * a.p.head_dim;
  load_tile<Shape::kGroupKeys, Shape::kHeadDim, kGroupThreads>(
      k_tile, rows_of<T>(a.p.k, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
  load_tile<Shape::kGroupKeys, Shape::kHeadDim, kGroupThreads>(
      k_tile + Shape::kGroupBytes, rows_of<T>(a.p.v, a.p.kv_stride, row, column, count, a.p.head_dim),
      thread);
  commit_copies();
  wait_copies<0>();
  publish_writes();
  sync_group(group);
}

// sums[matrix, key, column] of this block, for the others of the cluster; `row` is the warp's first key.
template <class Shape>
__device__ inline void publish(const KeyBlock<Shape>& block, const Sums<1, Shape::kHeadDim / 8>& sums,
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

// dk and dv = the cluster's sums, added in the order of its blocks. The blocks share the rows, a warp takes
// one.
template <typename T, class Shape>
__device__ inline void add_cluster(const KeyBlock<Shape>& block, int warp) {
  const AttentionArguments& a = block.a;
  int size = cluster_size();
  int lane = static_cast<int>(threadIdx.x & 31);
  int keys = min(Shape::kKeys, block.work.keys - block.work.first);
  constexpr int kWarps = kWorkingGroups * kGroupThreads / 32;
  for (int item = cluster_rank() * kWarps + warp; item < 2 * keys; item += size * kWarps) {
    int matrix = item & 1;
    int key = item >> 1;
    if (4 * lane >= a.p.head_dim) {
      continue;
    }
    uint32_t from =
        block.memory + static_cast<uint32_t>(((matrix * Shape::kKeys + key) * Shape::kPitch + 4 * lane) * 4);
    float4 sum = make_float4(0, 0, 0, 0);
    for (int rank = 0; rank < size; ++rank) {
      float4 part = read_cluster(from, rank);
      sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
    }
    float factor = matrix == 0 ? a.p.scale : 1.0F;
    T* to = static_cast<T*>(matrix == 0 ? a.p.dk : a.p.dv) +
            (block.work.key_row + block.work.first + key) * a.p.dkv_stride +
            static_cast<int64_t>(block.work.head) * a.p.head_dim + 4 * lane;
    reinterpret_cast<uint32_t*>(to)[0] = pack<T>(sum.x * factor, sum.y * factor);
    reinterpret_cast<uint32_t*>(to)[1] = pack<T>(sum.z * factor, sum.w * factor);
  }
}

template <typename T, class Shape>
__device__ inline void make_dkv(const KeyBlock<Shape>& block, const float* bias) {
  constexpr int kQueryBlocks = Shape::kQueries / 8;
  constexpr int kWidth = Shape::kHeadDim / 8;
  const AttentionArguments& a = block.a;
  const Work& work = block.work;
  int thread = static_cast<int>(threadIdx.x) - kGroupThreads;
  int group = thread / kGroupThreads;
  int row = thread / 32 * 16;
  uint32_t k_tile = block.memory + 2 * group * Shape::kGroupBytes;
  load_keys<T>(block, group, k_tile);
  Sums<1, kWidth> dk;
  Sums<1, kWidth> dv;
  Sums<1, kQueryBlocks> weights;
  Sums<1, kQueryBlocks> dweights;
  uint32_t rounded_weights[kQueryBlocks / 2][4];
  uint32_t dscores[kQueryBlocks / 2][4];
  clear<1, kWidth>(dk);
  clear<1, kWidth>(dv);
  for (int step = block.begin; step < block.end; ++step) {
    block.ring.wait_full(step - block.begin);
    ScoreBlock place{work.first + group * Shape::kGroupKeys, block.first(step) + work.shift, work.keys};
    if (is_hidden(a, place, Shape::kQueries, Shape::kGroupKeys)) {
      block.ring.release(step - block.begin);
      continue;
    }
    uint32_t q_tile = block.q_tile(step);
    uint32_t do_tile = q_tile + Shape::kQueryBytes;
    fence_products();
    start_product_of_rows<T, Shape::kGroupKeys, Shape::kHeadDim>(weights, k_tile, q_tile);
    start_product_of_rows<T, Shape::kGroupKeys, Shape::kHeadDim>(dweights, k_tile + Shape::kGroupBytes,
                                                                 do_tile);
    wait_products<1>();
    settle(weights);
    auto* rows = reinterpret_cast<const float2*>(block.shared + block.rows_at(step));
    place.first_key = work.first + row;
    const float* head_bias = bias + step / block.tiles * bias_table_entries(a.p);
    float factor = finish_scores<true, 1, kQueryBlocks>(a, weights, place, head_bias);
    make_weights_of_columns<kQueryBlocks>(weights, rows, factor);
    pack_weights<T>(rounded_weights, weights);
    fence_products();
    start_weighted_rows<T>(dv, rounded_weights, do_tile);
    wait_products<1>();
    settle(dweights);
    make_dscores_of_columns<kQueryBlocks>(dweights, weights, rows);
    pack_weights<T>(dscores, dweights);
    fence_products();
    start_weighted_rows<T>(dk, dscores, q_tile);
    wait_products<0>();
    settle(dk);
    settle(dv);
    block.ring.release(step - block.begin);
  }
  if (cluster_size() > 1) {
    sync_block();  // nobody reads the tiles any more
    publish(block, dk, 0, row);
    publish(block, dv, 1, row);
    sync_cluster();
    add_cluster<T>(block, thread / 32);
    sync_cluster();  // the other blocks have read this one's sums
    return;
  }
  int key = work.first + row;
  int64_t at = (work.key_row + key) * a.p.dkv_stride + static_cast<int64_t>(work.head) * a.p.head_dim;
  store_rows<T, Shape::kHeadDim>(dk[0], static_cast<T*>(a.p.dk) + at, a.p.dkv_stride, work.keys - key,
                                 a.p.head_dim, make_float2(a.p.scale, a.p.scale));
  store_rows<T, Shape::kHeadDim>(dv[0], static_cast<T*>(a.p.dv) + at, a.p.dkv_stride, work.keys - key,
                                 a.p.head_dim, make_float2(1, 1));
}

#endif  // SNUG_HOPPER

template <typename T, class Shape>
__global__ void SNUG_HOPPER_BOUNDS hopper_keys_kernel(const __grid_constant__ AttentionArguments a) {
#ifdef SNUG_HOPPER
  extern __shared__ __align__(1024) unsigned char shared[];
  KeyBlock<Shape> block{a};
  int size = cluster_size();
  if (!find_key_work(a, Shape::kKeys, static_cast<int>(blockIdx.x) / size, block.work)) {
    return;
  }
  block.queries = queries_of_keys(a, block.work, Shape::kKeys);
  block.tiles = max(0, block.queries.last - block.queries.first + Shape::kQueries - 1) / Shape::kQueries;
  int steps = block.tiles * a.group;
  block.begin = steps * cluster_rank() / size;
  block.end = steps * (cluster_rank() + 1) / size;
  block.shared = shared;
  block.memory = shared_address(shared);
  block.ring.start(block.memory + Shape::kBarriersAt);
  auto* bias = reinterpret_cast<float*>(shared + Shape::kBytes);
  for (int i = 0; i < a.group; ++i) {
    fill_bias_table<T>(a, block.work.head * a.group + i, bias + i * bias_table_entries(a.p));
  }
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    fetch<T>(block);
    if (size > 1) {
      sync_block();
      sync_cluster();
      sync_cluster();
    }
  } else {
    grow_registers<Shape::kWorkingRegisters>();
    make_dkv<T>(block, bias);
  }
#endif
}

// Enough blocks for four rounds on every multiprocessor, as causal tiles differ in length.
template <class Shape>
int choose_cluster(const AttentionArguments& a) {
  int64_t tiles = (a.p.keys + Shape::kKeys - 1) / Shape::kKeys * a.p.kv_heads;
  int size = 1;
  while (size < kLargestCluster && tiles * size * 2 <= 4 * kHopperProcessors) {
    size *= 2;
  }
  return size;
}

template <typename T, class Shape>
bool launch(const AttentionArguments& a, cudaStream_t stream, cudaError_t& status) {
  constexpr int kBiasLimitBytes = 32 << 10;
  int bias_bytes = a.group * bias_table_bytes(a.p);
  if (bias_bytes > kBiasLimitBytes || !hopper_is_built(hopper_keys_kernel<T, Shape>)) {
    return false;
  }
  int cluster = choose_cluster<Shape>(a);
  int64_t blocks = tile_slots(a.p.keys, a.p.sequences, Shape::kKeys) * a.p.kv_heads * cluster;
  LaunchShape shape{blocks, kHopperThreads, Shape::kBytes + bias_bytes, 1, cluster};
  status = launch_attention(hopper_keys_kernel<T, Shape>, a, shape, stream);
  return true;
}

}  // namespace

bool hopper_backward_keys(const AttentionArguments& a, cudaStream_t stream, cudaError_t& status) {
  return launch_on_hopper(a, [&](auto number, auto head) {
    return launch<decltype(number), HopperKeyShape<decltype(head)::value>>(a, stream, status);
  });
}

}  // namespace snug::cuda
