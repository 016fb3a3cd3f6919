// Attention forward on Hopper: as in forward.cu, with warpgroups that read their operands from
// shared memory. A block takes 128 queries of one head. One warpgroup fetches tiles of 128 keys and values
// into rings; two work, 64 queries each, and ask for their products in turns, so that one's exponentials meet
// the other's products. Within a group, the scores of the next tile are asked for before the output of this
// one, whose product then hides the softmax.
#include "backend/cuda/attention/copy_engine.cuh"
#include "backend/cuda/attention/dropout.cuh"
#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/attention/softmax.cuh"

namespace snug::cuda {
namespace {

template <int kHeadDimension, bool kDrops>
struct HopperForwardShape : RegisterSplit<40, 232> {
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr bool kDropout = kDrops;
  static constexpr int kGroupQueries = 64;
  static constexpr int kQueries = kGroupQueries * kWorkingGroups;
  static constexpr int kKeys = 128;
  static constexpr int kStages = 2;
  static constexpr int kGroupBytes = kGroupQueries * kHeadDim * 2;
  static constexpr int kKeyBytes = kKeys * kHeadDim * 2;
  // Queries, ring of keys, ring of values, the rings' barriers; then the bias table.
  static constexpr int kKeysAt = kWorkingGroups * kGroupBytes;
  static constexpr int kValuesAt = kKeysAt + kStages * kKeyBytes;
  static constexpr int kBarriersAt = kValuesAt + kStages * kKeyBytes;
  static constexpr int kBytes = kBarriersAt + 2 * kStages * 16;
};

#ifdef SNUG_HOPPER

template <class Shape>
struct ForwardBlock {
  const AttentionArguments& a;
  Work work;
  Range keys;
  int tiles = 0;
  uint32_t memory = 0;
  Ring<Shape::kStages> k_ring;
  Ring<Shape::kStages> v_ring;

  __device__ uint32_t k_tile(int tile) const {
    return memory + Shape::kKeysAt + tile % Shape::kStages * Shape::kKeyBytes;
  }
  __device__ uint32_t v_tile(int tile) const {
    return memory + Shape::kValuesAt + tile % Shape::kStages * Shape::kKeyBytes;
  }
  __device__ int first_key(int tile) const { return keys.first + tile * Shape::kKeys; }
};

// The fetching group's side of one ring. Tiles of keys that the sequence has come by the copy engine; its
// last ones may be followed by another sequence's, or by nobody's, which have to become zeros: those are
// copied by all threads.
template <typename T, class Shape>
struct RingFetcher {
  const ForwardBlock<Shape>& block;
  const void* data;
  const CUtensorMap& map;
  const Ring<Shape::kStages>& ring;

  __device__ void fetch(Fetcher& fetcher, int tile, uint32_t to) const {
    const AttentionArguments& a = block.a;
    const Work& work = block.work;
    int first = block.first_key(tile);
    int head = work.head / a.group;
    fetcher.wait_room(ring, tile);
    if (first + Shape::kKeys > work.keys) {
      load_tile<Shape::kKeys, Shape::kHeadDim, kGroupThreads>(
          to,
          rows_of<T>(data, a.p.kv_stride, work.key_row + first, static_cast<int64_t>(head) * a.p.head_dim,
                     work.keys - first, a.p.head_dim),
          static_cast<int>(threadIdx.x));
      fetcher.announce(ring, tile);
      return;
    }
    uint32_t barrier = ring.full_of(tile);
    if (threadIdx.x > 0) {
      arrive(barrier);
      return;
    }
    expect_bytes(barrier, Shape::kKeyBytes);
#pragma unroll
    for (int panel = 0; panel < Shape::kHeadDim / 64; ++panel) {
      start_panel(to + panel * Shape::kKeys * 128, map, 64 * panel, head, work.key_row + first, barrier);
    }
  }
};

template <typename T, class Shape>
__device__ inline void fetch(const ForwardBlock<Shape>& block, const CUtensorMap& k_map,
                             const CUtensorMap& v_map) {
  RingFetcher<T, Shape> keys{block, block.a.p.k, k_map, block.k_ring};
  RingFetcher<T, Shape> values{block, block.a.p.v, v_map, block.v_ring};
  Fetcher fetcher;
  for (int tile = 0; tile <= block.tiles; ++tile) {
    if (tile < block.tiles) {
      keys.fetch(fetcher, tile, block.k_tile(tile));
    }
    if (tile > 0) {
      values.fetch(fetcher, tile - 1, block.v_tile(tile - 1));
    }
  }
  fetcher.finish();
}

template <int kBlocks>
__device__ inline void rescale(Sums<1, kBlocks>& output, const float (&correction)[2]) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    output[0][n][0] *= correction[0];
    output[0][n][1] *= correction[0];
    output[0][n][2] *= correction[1];
    output[0][n][3] *= correction[1];
  }
}

// o [T, heads * head_dim] and lse [T, heads], both written; `query` is the warp's first.
template <typename T, int kHeadDim>
__device__ inline void finish_rows(const AttentionArguments& a, const Work& work,
                                   const Sums<1, kHeadDim / 8>& output, float2 factors, float2 lse,
                                   int query) {
  int lane = static_cast<int>(threadIdx.x & 31);
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  int64_t row = work.query_row + query;
  store_rows<T, kHeadDim>(output[0], static_cast<T*>(a.p.o) + row * width + work.head * a.p.head_dim, width,
                          work.queries - query, a.p.head_dim, factors);
  if ((lane & 3) == 0) {
    int mine = lane >> 2;
    float* to = a.p.lse + (row + mine) * a.p.heads + work.head;
    if (query + mine < work.queries) {
      to[0] = lse.x;
    }
    if (query + mine + 8 < work.queries) {
      to[8 * static_cast<int64_t>(a.p.heads)] = lse.y;
    }
  }
}

template <typename T, class Shape>
__device__ inline void attend(const ForwardBlock<Shape>& block, const float* bias) {
  constexpr int kKeyBlocks = Shape::kKeys / 8;
  constexpr int kWidth = Shape::kHeadDim / 8;
  const AttentionArguments& a = block.a;
  const Work& work = block.work;
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  int group = static_cast<int>(threadIdx.x) / kGroupThreads - 1;
  int group_query = work.first + group * Shape::kGroupQueries;
  int query = group_query + thread / 32 * 16;
  uint32_t q_tile = block.memory + group * Shape::kGroupBytes;
  load_tile<Shape::kGroupQueries, Shape::kHeadDim, kGroupThreads>(
      q_tile,
      rows_of<T>(a.p.q, a.p.q_stride, work.query_row + group_query,
                 static_cast<int64_t>(work.head) * a.p.head_dim, work.queries - group_query, a.p.head_dim),
      thread);
  commit_copies();
  wait_copies<0>();
  publish_writes();
  sync_group(group);

  Sums<1, kWidth> output;
  Sums<1, kKeyBlocks> scores;
  uint32_t weights[kKeyBlocks / 2][4];
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
  float correction[2];
  clear<1, kWidth>(output);
  MaskOf<Shape> mask(a);
  auto soften = [&](int tile) {
    ScoreBlock place{block.first_key(tile), query + work.shift, work.keys};
    float factor = finish_scores<false, true, 1, kKeyBlocks>(a, scores, place, bias);
    advance_softmax<kKeyBlocks>(scores[0], maximum, sum, correction, factor);
    if constexpr (Shape::kDropout) {  // the sums are those of all weights: dropout follows the softmax
      mask.drop_rows(scores[0], work.query_row + query, work.head, place.first_key);
    }
  };
  if (block.tiles > 0) {
    block.k_ring.wait_full(0);
    fence_products();
    start_product_of_rows<T, Shape::kGroupQueries, Shape::kHeadDim>(scores, q_tile, block.k_tile(0));
    wait_products<0>();
    settle(scores);
    block.k_ring.release(0);
    soften(0);
    pack_weights<T>(weights, scores);
  }
  if (group == 1 && block.tiles > 1) {
    give_products_turn(0);
  }
  for (int tile = 1; tile < block.tiles; ++tile) {
    wait_products_turn(group);
    block.k_ring.wait_full(tile);
    fence_products();
    start_product_of_rows<T, Shape::kGroupQueries, Shape::kHeadDim>(scores, q_tile, block.k_tile(tile));
    block.v_ring.wait_full(tile - 1);
    fence_products();
    start_weighted_rows<T>(output, weights, block.v_tile(tile - 1));
    if (group == 0 || tile + 1 < block.tiles) {
      give_products_turn(1 - group);
    }
    wait_products<1>();
    settle(scores);
    block.k_ring.release(tile);
    soften(tile);
    wait_products<0>();
    settle(output);
    block.v_ring.release(tile - 1);
    rescale<kWidth>(output, correction);
    pack_weights<T>(weights, scores);
  }
  if (block.tiles > 0) {
    block.v_ring.wait_full(block.tiles - 1);
    fence_products();
    start_weighted_rows<T>(output, weights, block.v_tile(block.tiles - 1));
    wait_products<0>();
    settle(output);
  }
  float2 factors;
  float2 lse;
  finish_softmax(maximum, sum, factors, lse);
  finish_rows<T, Shape::kHeadDim>(a, work, output, factors, lse, query);
}

#endif  // SNUG_HOPPER

template <typename T, class Shape>
__global__ void SNUG_HOPPER_BOUNDS hopper_forward_kernel(const __grid_constant__ AttentionArguments a,
                                                         const __grid_constant__ CUtensorMap k_map,
                                                         const __grid_constant__ CUtensorMap v_map) {
#ifdef SNUG_HOPPER
  extern __shared__ __align__(1024) unsigned char shared[];
  ForwardBlock<Shape> block{a};
  if (!find_query_work(a, Shape::kQueries, block.work)) {
    return;
  }
  block.keys = keys_of_queries(a, block.work, Shape::kQueries);
  block.tiles = max(0, block.keys.last - block.keys.first + Shape::kKeys - 1) / Shape::kKeys;
  block.memory = shared_address(shared);
  block.k_ring.start(block.memory + Shape::kBarriersAt);
  block.v_ring.start(block.memory + Shape::kBarriersAt + Ring<Shape::kStages>::kBytes);
  auto* bias = reinterpret_cast<float*>(shared + Shape::kBytes);
  fill_bias_table<T>(a, block.work.head, bias);
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    fetch<T>(block, k_map, v_map);
  } else {
    grow_registers<Shape::kWorkingRegisters>();
    attend<T>(block, bias);
  }
#endif
}

template <typename T, class Shape>
bool launch(const AttentionArguments& a, cudaStream_t stream, cudaError_t& status) {
  static_assert(!Shape::kDropout || Shape::kHeadDim <= kMostDroppedColumns);
  CUtensorMap k_map;
  CUtensorMap v_map;
  if (!hopper_is_built(hopper_forward_kernel<T, Shape>) ||
      !make_map(k_map, a, {a.p.k, a.p.kv_stride, a.p.kv_heads, a.p.keys}, Shape::kKeys) ||
      !make_map(v_map, a, {a.p.v, a.p.kv_stride, a.p.kv_heads, a.p.keys}, Shape::kKeys)) {
    return false;
  }
  int64_t blocks = tile_slots(a.p.queries, a.p.sequences, Shape::kQueries) * a.p.heads;
  LaunchShape shape{blocks, kHopperThreads, Shape::kBytes + bias_table_bytes(a.p)};
  status = launch_attention(hopper_forward_kernel<T, Shape>, a, shape, stream, k_map, v_map);
  return true;
}

}  // namespace

bool hopper_forward(const AttentionArguments& a, cudaStream_t stream, cudaError_t& status) {
  return launch_on_hopper(a, [&](auto number, auto head, auto dropout) {
    using Shape = HopperForwardShape<decltype(head)::value, decltype(dropout)::value>;
    return launch<decltype(number), Shape>(a, stream, status);
  });
}

}  // namespace snug::cuda
