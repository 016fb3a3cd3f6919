// The gradients of attention on Hopper, all in one pass with five products: scores and dweights are made
// once.
//
// A block takes a tile of 128 keys of one kv head and walks the queries that see them, of all query heads of
// the group. As in backward_keys.cu scores are made transposed, and dk and dv stay in registers:
//   p^T = exp(scale * k q^T + bias - lse), dv += p^T do, dscores^T = p^T * (v do^T - sum(o * do)),
//   dk += dscores^T q; and dscores^T goes through shared memory for dq = dscores k, the key tile's part of
//   dq.
// Two warpgroups work, 64 keys each. Of the third, one warp fetches queries and output gradients, and two
// have the copy engine add the parts of dq to sums in global memory (fp32). There the key tiles of a sequence
// take turns, the first one first, so that every run gives the same bits: docs/decisions/0020 says why this
// way.
//
// Where there are few tiles, the blocks of a cluster take the steps of one in turn, and at the end add up dk
// and dv through each other's shared memory, in order. A sequence's last two tiles may share a cluster.
#include <array>

#include "backend/cuda/attention/bias_gradient.cuh"
#include "backend/cuda/attention/dropout.cuh"
#include "backend/cuda/attention/gradient.cuh"
#include "backend/cuda/attention/hopper_cluster.cuh"
#include "backend/cuda/attention/hopper_gradient.cuh"
#include "backend/cuda/attention/kernels.h"

namespace snug::cuda {
namespace {

using WorkingBiasGradient = BiasGradient<kGroupThreads * kWorkingGroups>;

#ifdef SNUG_HOPPER

// Loads the group's keys and values.
template <typename T, class Shape>
__device__ inline void load_keys(const GradientBlock<Shape>& block, int group) {
  const AttentionArguments& a = block.a;
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  int first = block.work.first + group * Shape::kGroupKeys;
  int64_t row = block.work.key_row + first;
  int count = block.work.keys - first;
  int64_t column = static_cast<int64_t>(block.work.head) * a.p.head_dim;
  uint32_t k_tile = block.keys_of(group);
  load_tile<Shape::kGroupKeys, Shape::kHeadDim, kGroupThreads>(
      k_tile, rows_of<T>(a.p.k, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
  load_tile<Shape::kGroupKeys, Shape::kHeadDim, kGroupThreads>(
      k_tile + Shape::kGroupBytes, rows_of<T>(a.p.v, a.p.kv_stride, row, column, count, a.p.head_dim),
      thread);
  commit_copies();
  wait_copies<0>();
  publish_writes();
  sync_working();  // each group's dq needs the keys of both
}

// Starts the group's share of dq = dscores k, 64 queries and 64 columns.
template <typename T, class Shape>
__device__ inline void start_dq(float (&dq)[1][8][4], const GradientBlock<Shape>& block, int group) {
  constexpr int kPanelBytes = 128;  // a row
  uint32_t dscores = block.memory + Shape::kScoresAt;
  uint32_t panel = 0;
  if constexpr (Shape::kShareColumns) {
    panel = static_cast<uint32_t>(group * Shape::kGroupKeys * kPanelBytes);
  } else {
    dscores += group * Shape::kKeys * kPanelBytes;
  }
#pragma unroll
  for (int step = 0; step < Shape::kKeys / 16; ++step) {
    uint32_t keys = block.keys_of(step / 4) + panel;
    uint64_t left = describe_columns<Shape::kKeys>(dscores, step);
    uint64_t right = describe_columns<Shape::kGroupKeys>(keys, step % 4);
    if (step == 0) {
      first_product_of_columns<T>(dq[0], left, right);
    } else {
      product_of_columns<T>(dq[0], left, right, 1);
    }
  }
  commit_products();
}

// The group's share of dq to shared memory, by slots of 8 queries: [column / 8, lane, 2].
template <class Shape>
__device__ inline void store_dq(const float (&dq)[8][4], const GradientBlock<Shape>& block, int step,
                                int group) {
  constexpr int kColumns = Shape::kHeadDim / 8;
  int lane = static_cast<int>(threadIdx.x & 31);
  int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  int slot = 2 * warp + (Shape::kShareColumns ? 0 : 8 * group);
  int column = Shape::kShareColumns ? 8 * group : 0;
  auto* to = reinterpret_cast<float2*>(block.shared + (block.sums_at(step) - block.memory)) +
             (slot * kColumns + column) * 32 + lane;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    to[n * 32] = make_float2(dq[n][0], dq[n][1]);
    to[(kColumns + n) * 32] = make_float2(dq[n][2], dq[n][3]);
  }
}

// The group's share of dq to where it belongs: no other key tile adds to it.
template <typename T, class Shape>
__device__ inline void store_finished_dq(const float (&dq)[8][4], const GradientBlock<Shape>& block, int step,
                                         int group) {
  const AttentionArguments& a = block.a;
  auto& work = reinterpret_cast<const FinishedWork*>(block.shared + Shape::kWorkAt)->work;
  int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  int query = block.tile(step) * Shape::kQueries + 16 * warp + (Shape::kShareColumns ? 0 : 64 * group);
  int column = Shape::kShareColumns ? 64 * group : 0;
  T* to = static_cast<T*>(a.p.dq) + (work.query_row + query) * a.p.dq_stride +
          static_cast<int64_t>(block.head(step)) * a.p.head_dim + column;
  store_rows<T, 64>(dq, to, a.p.dq_stride, work.queries - query, a.p.head_dim - column,
                    make_float2(a.p.scale, a.p.scale));
}

// The group's share of dq on its way.
template <typename T, class Shape>
__device__ inline void hand_over_dq(const float (&dq)[8][4], const GradientBlock<Shape>& block, int step,
                                    int group) {
  if (step >= block.direct_from) {
    store_finished_dq<T>(dq, block, step, group);
    return;
  }
  if (step >= Shape::kSums) {
    int before = step - Shape::kSums;
    wait_barrier(block.sums_read(before), before / kWriters & 1);
  }
  store_dq(dq, block, step, group);
  publish_writes();
  __syncwarp();
  if ((threadIdx.x & 31) == 0) {
    arrive(block.sums_made(step));
  }
}

template <typename T, class Shape>
__device__ inline void finish_keys(const GradientBlock<Shape>& block, const Sums<1, Shape::kHeadDim / 8>& dk,
                                   const Sums<1, Shape::kHeadDim / 8>& dv, int warp) {
  const AttentionArguments& a = block.a;
  const Work& work = block.work;
  int key = work.first + warp * 16;
  int64_t at = (work.key_row + key) * a.p.dkv_stride + static_cast<int64_t>(work.head) * a.p.head_dim;
  store_rows<T, Shape::kHeadDim>(dk[0], static_cast<T*>(a.p.dk) + at, a.p.dkv_stride, work.keys - key,
                                 a.p.head_dim, make_float2(a.p.scale, a.p.scale));
  store_rows<T, Shape::kHeadDim>(dv[0], static_cast<T*>(a.p.dv) + at, a.p.dkv_stride, work.keys - key,
                                 a.p.head_dim, make_float2(1, 1));
}

// dk and dv, and dq of the queries that no later key tile adds to.
template <typename T, class Shape>
__device__ inline void finish_block(GradientBlock<Shape>& block, const Sums<1, Shape::kHeadDim / 8>& dk,
                                    const Sums<1, Shape::kHeadDim / 8>& dv, int warp) {
  block.recall();
  if (cluster_size() > 1) {
    finish_cluster<T>(block, dk, dv, warp);
    return;
  }
  if (block.a.p.dk != nullptr) {
    finish_keys<T>(block, dk, dv, warp);
  }
  if (block.a.rounds_dq) {
    wait_for_block();  // all parts of dq have been added
    round_dq<T>(block, warp);
  }
}

// What a working group does with its 64 keys: dk and dv, and what is made of a part of the queries, all in
// registers.
template <typename T, class Shape>
struct GradientGroup {
  static constexpr int kQueryBlocks = Shape::kPartQueries / 8;
  const AttentionArguments& a;
  uint32_t keys;         // in shared memory; values follow
  uint32_t queries = 0;  // of the step; output gradients follow
  const float2* rows = nullptr;
  ScoreBlock place;  // of the step's first part
  MaskOf<Shape> mask{a};
  int mask_row = 0;              // the query at position 0, as a row of q
  int mask_head = 0;             // of the step
  uint32_t kept[Shape::kParts];  // as WeightMask::kept_of_columns gives it
  Sums<1, Shape::kHeadDim / 8> dk;
  Sums<1, Shape::kHeadDim / 8> dv;
  Sums<1, kQueryBlocks> weights[Shape::kParts];
  Sums<1, kQueryBlocks> dweights;
  uint32_t rounded_weights[kQueryBlocks / 2][4];
  uint32_t dscores[kQueryBlocks / 2][4];

  __device__ void start_scores(int part) {
    start_product_of_rows<T, Shape::kGroupKeys, Shape::kHeadDim>(weights[part], keys,
                                                                 queries + part * Shape::kPartBytes);
  }
  __device__ void start_dweights(int part) {
    start_product_of_rows<T, Shape::kGroupKeys, Shape::kHeadDim>(
        dweights, keys + Shape::kGroupBytes, queries + Shape::kQueryBytes + part * Shape::kPartBytes);
  }
  __device__ ScoreBlock place_of(int part) const {
    return {place.first_key, place.query_position + part * Shape::kPartQueries, place.keys};
  }
  // Scores become weights, and dv's product is started. kPending: products that may be under way.
  template <int kPending>
  __device__ void weigh(int part, const float* bias) {
    wait_products<kPending>();
    settle(weights[part]);
    float factor = finish_scores<true, Shape::kBias, 1, kQueryBlocks>(a, weights[part], place_of(part), bias);
    make_weights_of_columns(weights[part], rows + part * Shape::kPartQueries, factor);
    if constexpr (Shape::kDropout) {
      ScoreBlock at = place_of(part);
      kept[part] =
          mask.template kept_of_columns<kQueryBlocks>(mask_row + at.query_position, mask_head, at.first_key);
      Sums<1, kQueryBlocks> left;
      mask.apply(weights[part][0], kept[part], left[0]);
      pack_weights<T>(rounded_weights, left);
    } else {
      pack_weights<T>(rounded_weights, weights[part]);
    }
    fence_products();
    start_weighted_rows<T>(dv, rounded_weights, queries + Shape::kQueryBytes + part * Shape::kPartBytes);
  }
  template <int kPending>
  __device__ void make_dscores(int part) {
    wait_products<kPending>();
    settle(dweights);
    if constexpr (Shape::kDropout) {
      mask.apply(dweights[0], kept[part], dweights[0]);
    }
    make_dscores_of_columns(dweights, weights[part], rows + part * Shape::kPartQueries);
    pack_weights<T>(dscores, dweights);
  }
  // The part of the product from 16 * kFirst to 16 * kLast queries.
  template <int kFirst, int kLast>
  __device__ void start_dk(int part) {
    start_weighted_rows<T, kFirst, kLast>(dk, dscores, queries + part * Shape::kPartBytes);
  }
};

// The tensor cores have work while exponentials are made (dweights, the second part's scores), while groups
// wait for each other's dscores (a half of dk) and while dq is stored (the other half).
template <typename T, class Shape>
__device__ inline void make_gradients(GradientBlock<Shape>& block, const float* bias,
                                      unsigned char* dbias_memory) {
  const AttentionArguments& a = block.a;
  int thread = static_cast<int>(threadIdx.x) - kGroupThreads;
  int group = __shfl_sync(0xffffffffU, thread / kGroupThreads, 0);  // for uniform registers
  int row = thread / 32 * 16;
  bool leads = thread % 32 == 0;
  WorkingBiasGradient dbias;
  if (Shape::kBias && a.p.dbias != nullptr) {
    dbias.start(a, dbias_memory, thread);
  }
  load_keys<T>(block, group);
  GradientGroup<T, Shape> mine{a, block.keys_of(group)};
  mine.place.first_key = block.work.first + row;
  mine.place.keys = block.work.keys;
  mine.mask_row = block.work.query_row - block.work.shift;
  Sums<1, 8> dq;
  clear<1, Shape::kHeadDim / 8>(mine.dk);
  clear<1, Shape::kHeadDim / 8>(mine.dv);
  mine.place.query_position = block.last_tile * Shape::kQueries + block.work.shift;
  auto finish_part = [&](int part) {
    if (Shape::kBias && a.p.dbias != nullptr) {
      dbias.add<true>(a, mine.dweights[0], mine.place_of(part), thread);
    }
  };
  auto store_part = [&](int part) {
    store_lefts<Shape::kKeys>(mine.dscores, block.memory + Shape::kScoresAt + part * Shape::kKeys * 128, row);
    fence_products();
  };
  int head = block.part;
  auto find_place = [&] {
    while (head >= a.group) {
      head -= a.group;
      mine.place.query_position -= Shape::kQueries;
    }
  };
  find_place();
  for (int step = 0; step < block.steps; ++step) {
    constexpr int kLast = Shape::kParts - 1;
    mine.queries = block.q_tile(step);
    mine.mask_head = block.first_head + head;
    int odd = static_cast<int>((block.first_head + head) * a.p.queries + block.work.query_row) & 1;
    mine.rows = reinterpret_cast<const float2*>(block.shared + block.rows_at(step)) + odd;
    block.ring.wait_full(step);
    fence_products();
    mine.start_scores(0);
    mine.start_dweights(0);
    if constexpr (Shape::kParts == 2) {
      mine.start_scores(1);
    }
    mine.template weigh<kLast + 1>(0, bias);
    mine.template make_dscores<kLast + 1>(0);
    finish_part(0);
    if (step > 0) {
      wait_barrier(block.scores_read(), (step - 1) & 1);
    }
    if constexpr (Shape::kParts == 2) {
      fence_products();
      mine.start_dweights(1);
      store_part(0);
      mine.template start_dk<0, 4>(0);
      mine.template weigh<2>(1, bias);
      mine.template make_dscores<1>(1);
      finish_part(1);
    }
    store_part(kLast);
    mine.template start_dk<0, 2>(kLast);
    publish_writes();
    sync_working();
    fence_products();
    start_dq<T>(dq, block, group);
    mine.template start_dk<2, 4>(kLast);
    wait_products<1>();
    settle(dq);
    settle(mine.dv);
    if (leads) {
      arrive(block.scores_read());
    }
    hand_over_dq<T>(dq[0], block, step, group);
    wait_products<0>();
    settle(mine.dk);
    block.ring.release(step);
    head += block.parts;
    find_place();
  }
  if (Shape::kBias && a.p.dbias != nullptr) {
    sync_working();
    dbias.finish(a, bias_partial(a, block.work.slot, block.first_head + block.part), thread);
  }
  finish_block<T>(block, mine.dk, mine.dv, thread / 32);
}

#endif  // SNUG_HOPPER

template <typename T, class Shape>
__global__ void SNUG_HOPPER_BOUNDS hopper_gradient_kernel(const __grid_constant__ AttentionArguments a,
                                                          const __grid_constant__ CUtensorMap q_map,
                                                          const __grid_constant__ CUtensorMap dout_map) {
#ifdef SNUG_HOPPER
  extern __shared__ __align__(1024) unsigned char shared[];
  if (a.p.sequences > 1) {
    wait_for_kernel_before();  // which makes the order of work
  }
  if (threadIdx.x == 0) {
    prefetch_map(q_map);
    prefetch_map(dout_map);
  }
  GradientBlock<Shape> block{{a}};
  if (!find_gradient_work(block)) {
    wait_for_kernel_before();
    clear_bias_partial(a, block.work.slot, block.first_head + block.part);
    return;
  }
  block.shared = shared;
  block.memory = shared_address(shared);
  block.start();
  auto* bias = reinterpret_cast<float*>(shared + Shape::kBytes);
  fill_bias_table<T>(a, block.first_head + block.part, bias);  // one head's, if any
  __syncthreads();
  if (threadIdx.x < kGroupThreads) {
    shrink_registers<Shape::kFetchingRegisters>();
    if (cluster_size() > 1) {
      arrive_cluster();  // these publish nothing
    }
    wait_for_kernel_before();  // which makes the rows and clears the turns
    if (threadIdx.x < kFetchingThreads) {
      fetch(block, q_map, dout_map);
    } else if (threadIdx.x % 32 == 0 && threadIdx.x / 32 <= kWriters) {
      add_dq(block, static_cast<int>(threadIdx.x) / 32 - 1);
    }
    __syncwarp();
    if (cluster_size() > 1) {
      wait_cluster();
      arrive_cluster();
    }
    if (a.rounds_dq) {
      wait_for_block();
    }
    if (cluster_size() > 1) {
      wait_cluster();
    }
  } else {
    grow_registers<Shape::kWorkingRegisters>();
    make_gradients<T>(block, bias, shared + Shape::kBytes + bias_table_bytes(a.p));
  }
#endif
}

template <typename T, class Shape>
bool launch(AttentionArguments a, int cluster, cudaStream_t stream, cudaError_t& status) {
  CUtensorMap q_map;
  CUtensorMap dout_map;
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  if (!make_map(q_map, a, {a.p.q, a.p.q_stride, a.p.heads, a.p.queries}, Shape::kQueries) ||
      !make_map(dout_map, a, {a.p.dout, width, a.p.heads, a.p.queries}, Shape::kQueries)) {
    return false;
  }
  if (!hopper_is_built(hopper_gradient_kernel<T, Shape>)) {
    return false;
  }
  int64_t tiles = tile_slots(a.p.keys, a.p.sequences, Shape::kKeys);
  LaunchShape shape{tiles * a.p.kv_heads * cluster,
                    kHopperThreads,
                    Shape::kBytes + bias_table_bytes(a.p) + WorkingBiasGradient::bytes(a.p),
                    1,
                    cluster,
                    true};
  set_gradient_tiles(a, Shape::kKeys, Shape::kQueries);
  // In causal attention every key tile finishes about as many queries as it has keys; else the last would
  // finish all. For many short sequences a kernel that only rounds is faster.
  a.rounds_dq = a.p.causal && a.p.dq != nullptr && a.p.queries >= 4 * Shape::kQueries * a.p.sequences;
  status = make_rows(a, stream);
  if (status == cudaSuccess) {
    status = launch_attention(hopper_gradient_kernel<T, Shape>, a, shape, stream, q_map, dout_map);
  }
  if (status == cudaSuccess && a.p.dbias != nullptr) {
    status = reduce_bias_gradient(a, tiles, stream);
  }
  if (status == cudaSuccess && a.p.dq != nullptr && !a.rounds_dq) {
    status = round_query_gradient(a, stream);
  }
  return true;
}

constexpr int kHopperProcessors = 132;

// How many blocks share a key tile. One alone has the least to add up, but there may be too few of them, or
// the longest may take longer than its share of the processors' time. Counted in steps; a block begins and
// ends in about two, and in six where a cluster adds up. All counts are doubled.
template <class Shape>
int choose_cluster(const AttentionArguments& a) {
  if (a.p.bias != nullptr) {
    return a.group;  // a block has room for one head's table
  }
  int64_t key_tiles = (a.p.keys + Shape::kKeys - 1) / Shape::kKeys * a.p.kv_heads;
  int64_t longest = (a.p.queries / a.p.sequences + Shape::kQueries - 1) / Shape::kQueries * a.group;
  int64_t steps = a.p.causal ? longest + a.group : 2 * longest;  // of a key tile
  int best = 1;
  int64_t best_time = INT64_MAX;
  for (int blocks = 1; blocks <= std::min(a.group, kLargestCluster); ++blocks) {
    int64_t ends = blocks == 1 ? 4 : 12;
    int64_t time =
        std::max(key_tiles * (steps + blocks * ends) / kHopperProcessors, 2 * longest / blocks + ends);
    if (time < best_time) {
      best = blocks;
      best_time = time;
    }
  }
  return best;
}

// How many clusters of so many blocks can be at work at once: each lies within one of the card's groups of
// processors, and those are not all of one size. Of 7 or 8 blocks there are 15 on an H200.
template <typename T, class Shape>
int clusters_at_once(int blocks) {
  static const std::array<int, kLargestCluster + 1> counts = [] {
    std::array<int, kLargestCluster + 1> found{};
    for (int size = 1; size <= kLargestCluster; ++size) {
      found[size] =
          count_clusters(hopper_gradient_kernel<T, Shape>, {1, kHopperThreads, Shape::kBytes, 1, size});
    }
    return found;
  }();
  return counts[blocks];
}

// Whether a sequence's last two key tiles share a cluster: in causal attention they are the shortest, and
// where all clusters but a few are at work at once, those few would take as long again. Makes `cluster` the
// largest with which all are.
template <typename T, class Shape>
bool pairs_tiles(const AttentionArguments& a, int& cluster) {
  int64_t keys = (a.p.keys + a.p.sequences - 1) / a.p.sequences;  // of a sequence
  int64_t tiles = (keys + Shape::kKeys - 1) / Shape::kKeys;
  int64_t heads = a.p.sequences * a.p.kv_heads;
  if (!a.p.causal || a.p.bias != nullptr || cluster == 1 || tiles == 1 ||
      tiles * heads <= clusters_at_once<T, Shape>(cluster)) {
    return false;
  }
  for (int blocks = kLargestCluster; blocks >= 4; blocks /= 2) {
    if ((tiles - 1) * heads <= clusters_at_once<T, Shape>(blocks)) {
      cluster = blocks;
      return true;
    }
  }
  return false;
}

}  // namespace

bool hopper_backward(AttentionArguments a, cudaStream_t stream, cudaError_t& status) {
  if (a.p.bias != nullptr && a.group > kLargestCluster) {
    return false;
  }
  return launch_on_hopper(a, [&](auto number, auto head, auto dropout) {
    using T = decltype(number);
    using WithBias = HopperGradientShape<decltype(head)::value, true, decltype(dropout)::value>;
    using WithoutBias = HopperGradientShape<decltype(head)::value, false, decltype(dropout)::value>;
    int cluster = choose_cluster<WithoutBias>(a);
    a.pairs_tiles = pairs_tiles<T, WithoutBias>(a, cluster);
    a.batch_sequences = std::max(1, kHopperProcessors / 4 / (a.p.kv_heads * cluster));
    return a.p.bias != nullptr ? launch<T, WithBias>(a, cluster, stream, status)
                               : launch<T, WithoutBias>(a, cluster, stream, status);
  });
}

}  // namespace snug::cuda
