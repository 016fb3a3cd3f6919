// The gradients of attention in one pass with five products, on the tensor cores of cards since Ampere.
//
// A block takes a tile of keys of one kv head and walks the queries that see them, of all query heads of the
// group, as Hopper's kernel does (hopper_gradient.cu; docs/decisions/0020). Scores are made transposed, keys
// as rows:
//   p^T = exp(scale * k q^T - lse), dscores^T = p^T * (v do^T - sum(o * do)),
// both go through shared memory, so that each warp has a part of every product that is as square as may be
// (the fewer reads of shared memory a product), and
//   dv += p^T do, dk += dscores^T q stay in registers, dq = dscores k is added to sums in global memory,
//   where
// the key tiles of a sequence take turns: every run gives the same bits. Where key tiles are few, several
// blocks share each, take its steps in turn and add up dk and dv in global memory, one after another.
#include <algorithm>

#include "backend/cuda/attention/gradient.cuh"
#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/attention/one_pass.cuh"
#include "backend/cuda/attention/tiles.cuh"

namespace snug::cuda {
namespace {

template <int kHeadDimension, int kWarpCount, int kKeyRows, int kStageCount, int kBlocksAProcessor>
struct OnePassShape {
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr int kThreads = 32 * kWarpCount;
  static constexpr int kBlocks = kBlocksAProcessor;
  static constexpr int kKeys = kKeyRows;
  static constexpr int kQueries = 64;
  static constexpr int kStages = kStageCount;  // tiles of queries and output gradients in shared memory
  // Each warp has 32 rows of a product: of the keys (scores, dk and dv) or of the queries (dq).
  static constexpr int kRowTiles = 2;
  static constexpr int kKeyWarps = kKeys / 32;
  static constexpr int kQueryWarps = kQueries / 32;
  static constexpr int kScoreColumns = kQueries / (kWarpCount / kKeyWarps);
  static constexpr int kKeyColumns = kHeadDim / (kWarpCount / kKeyWarps);
  static constexpr int kQueryColumns = kHeadDim / (kWarpCount / kQueryWarps);
  static constexpr int kKeyBytes = kKeys * kHeadDim * 2;
  static constexpr int kQueryBytes = kQueries * kHeadDim * 2;
  static constexpr int kScoreBytes = kKeys * kQueries * 2;
  // Keys and values; per stage queries and output gradients; weights and dscores; per stage the rows'
  // log-sum-exps and sums.
  static constexpr int kQueriesAt = 2 * kKeyBytes;
  static constexpr int kScoresAt = kQueriesAt + 2 * kStages * kQueryBytes;
  static constexpr int kRowsAt = kScoresAt + 2 * kScoreBytes;
  static constexpr int kBytes = kRowsAt + kStages * kQueries * 8;
};

template <typename T, class Shape>
__device__ inline void load_keys(const GradientWalk<Shape>& walk, uint32_t memory) {
  const AttentionArguments& a = walk.a;
  const Work& work = walk.work;
  int thread = static_cast<int>(threadIdx.x);
  int64_t row = work.key_row + work.first;
  int64_t column = static_cast<int64_t>(work.head) * a.p.head_dim;
  int count = work.keys - work.first;
  load_tile<Shape::kKeys, Shape::kHeadDim, Shape::kThreads>(
      memory, rows_of<T>(a.p.k, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
  load_tile<Shape::kKeys, Shape::kHeadDim, Shape::kThreads>(
      memory + Shape::kKeyBytes, rows_of<T>(a.p.v, a.p.kv_stride, row, column, count, a.p.head_dim), thread);
}

template <typename T, class Shape>
__device__ inline void load_queries(const GradientWalk<Shape>& walk, int step, uint32_t memory) {
  const AttentionArguments& a = walk.a;
  int thread = static_cast<int>(threadIdx.x);
  int stage = step % Shape::kStages;
  uint32_t tile = memory + Shape::kQueriesAt + 2 * stage * Shape::kQueryBytes;
  uint32_t rows = memory + Shape::kRowsAt + stage * Shape::kQueries * 8;
  int head = walk.head(step);
  int first = walk.tile(step) * Shape::kQueries;
  int64_t row = walk.work.query_row + first;
  int64_t column = static_cast<int64_t>(head) * a.p.head_dim;
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  int count = walk.work.queries - first;
  load_tile<Shape::kQueries, Shape::kHeadDim, Shape::kThreads>(
      tile, rows_of<T>(a.p.q, a.p.q_stride, row, column, count, a.p.head_dim), thread);
  load_tile<Shape::kQueries, Shape::kHeadDim, Shape::kThreads>(
      tile + Shape::kQueryBytes, rows_of<T>(a.p.dout, width, row, column, count, a.p.head_dim), thread);
  if (thread < Shape::kQueries) {
    const float2* from = a.rows + head * a.p.queries + row;
    copy_pair(rows + thread * 8, thread < count ? from + thread : from, thread < count);
  }
}

// The turns of dq (one thread of a warp that works): passing one on and taking the next both last as long as
// a read of global memory, so that different warps do it, and in a step's first half, while the parts of the
// last step's dq arrive.
template <class Shape>
__device__ inline void pass_turn_of(const GradientWalk<Shape>& walk, int step) {
  if (threadIdx.x == 0 && step >= 0) {
    QuerySums to = walk.sums_of(step);
    pass_turn(to.turn, to.mine + 1);
  }
}
template <class Shape>
__device__ inline void wait_turn_of(const GradientWalk<Shape>& walk, int step) {
  if (threadIdx.x == 32) {
    QuerySums to = walk.sums_of(step);
    while (to.mine > 0 && read_turn(to.turn) != to.mine) {
    }
  }
}

// Adds the warp's part of dq, by slots of 8 queries: [column / 8, 2, lane].
template <class Shape>
__device__ inline void add_dq(const Sums<Shape::kRowTiles, Shape::kQueryColumns / 8>& dq, const QuerySums& to,
                              int row, int column) {
  int lane = static_cast<int>(threadIdx.x & 31);
#pragma unroll
  for (int r = 0; r < 2 * Shape::kRowTiles; ++r) {
    int slot = row / kGradientSumRows + r;
    if (slot >= to.slots) {
      return;
    }
    float* sums = to.sums + (slot * (Shape::kHeadDim / 8) + column / 8) * 64 + lane;
#pragma unroll
    for (int i = 0; i < Shape::kQueryColumns / 4; ++i) {
      float part = dq[r / 2][i / 2][2 * (r & 1) + (i & 1)];
      if (to.mine == 0) {
        sums[32 * i] = part;
      } else {
        atomicAdd(sums + 32 * i, part);
      }
    }
  }
}

template <typename T, class Shape>
struct OnePass {
  static constexpr int kRowTiles = Shape::kRowTiles;
  static constexpr int kScoreBlocks = Shape::kScoreColumns / 8;
  static constexpr int kKeyBlocks = Shape::kKeyColumns / 8;
  static constexpr int kTileSums = kRowTiles * kKeyBlocks;  // of dk or dv, four at a time, a thread
  const GradientWalk<Shape>& walk;
  unsigned char* shared;
  uint32_t memory;
  // The warp's parts: rows of keys, columns of the scores, of dk and dv; rows and columns of dq.
  int key_row;
  int score_column;
  int key_column;
  int query_row;
  int query_column;
  Sums<kRowTiles, kKeyBlocks> dk;
  Sums<kRowTiles, kKeyBlocks> dv;

  __device__ uint32_t queries_of(int step) const {
    return memory + Shape::kQueriesAt + 2 * (step % Shape::kStages) * Shape::kQueryBytes;
  }

  // Weights and dscores of a step to shared memory.
  __device__ void make_scores(int step) {
    uint32_t queries = queries_of(step);
    Sums<kRowTiles, kScoreBlocks> weights;
    Sums<kRowTiles, kScoreBlocks> dweights;
    multiply_rows<T, Shape::kKeys, Shape::kHeadDim, kRowTiles, kScoreBlocks, Shape::kQueries>(
        weights, memory, key_row, queries, score_column);
    const Work& work = walk.work;
    ScoreBlock block{work.first + key_row, walk.tile(step) * Shape::kQueries + score_column + work.shift,
                     work.keys};
    float factor = finish_scores<true, false, kRowTiles, kScoreBlocks>(walk.a, weights, block, nullptr);
    auto* rows = reinterpret_cast<const float2*>(shared + Shape::kRowsAt) +
                 step % Shape::kStages * Shape::kQueries + score_column;
    make_weights_of_columns(weights, rows, factor);
    multiply_rows<T, Shape::kKeys, Shape::kHeadDim, kRowTiles, kScoreBlocks, Shape::kQueries>(
        dweights, memory + Shape::kKeyBytes, key_row, queries + Shape::kQueryBytes, score_column);
    store_sums<T, Shape::kKeys>(weights, memory + Shape::kScoresAt, key_row, score_column);
    make_dscores_of_columns(dweights, weights, rows);
    store_sums<T, Shape::kKeys>(dweights, memory + Shape::kScoresAt + Shape::kScoreBytes, key_row,
                                score_column);
  }

  __device__ void add_keys(int step) {
    uint32_t weights = memory + Shape::kScoresAt;
    add_product<T, Shape::kKeys, Shape::kQueries>(dv, weights, key_row, queries_of(step) + Shape::kQueryBytes,
                                                  key_column);
    add_product<T, Shape::kKeys, Shape::kQueries>(dk, weights + Shape::kScoreBytes, key_row, queries_of(step),
                                                  key_column);
  }

  __device__ void make_dq(int step) {
    Sums<kRowTiles, Shape::kQueryColumns / 8> dq;
    clear<kRowTiles, Shape::kQueryColumns / 8>(dq);
    add_product_of_columns<T, Shape::kKeys>(dq, memory + Shape::kScoresAt + Shape::kScoreBytes, query_row,
                                            memory, query_column);
    add_dq<Shape>(dq, walk.sums_of(step), query_row, query_column);
  }

  // Of a tile that blocks share: each adds its sums of dv and dk to those of the blocks before it, which have
  // started, in the order of their ranks. False: others come after this one.
  __device__ bool add_up(int rank) {
    int64_t tile = static_cast<int64_t>(walk.work.slot) * walk.a.p.kv_heads + walk.work.head;
    int32_t* turns = walk.a.turns + walk.a.p.heads * walk.a.query_tiles + 2 * tile;
    float4* sums = walk.a.dkv_sums + tile * (2 * kTileSums * Shape::kThreads) + threadIdx.x;
    bool ends = rank == walk.a.tile_blocks - 1;
    add_matrix(dv, sums, turns, rank, ends);
    add_matrix(dk, sums + kTileSums * Shape::kThreads, turns + 1, rank, ends);
    return ends;
  }

  // Different warps wait and pass on: dk's turn may come while dv's is passed on.
  __device__ void add_matrix(Sums<kRowTiles, kKeyBlocks>& mine, float4* sums, int32_t* turn, int rank,
                             bool ends) {
    if (threadIdx.x == 32) {
      while (read_turn(turn) != rank) {
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTileSums; ++i) {
      float(&part)[4] = mine[i / kKeyBlocks][i % kKeyBlocks];
      if (rank > 0) {
        float4 before = __ldcg(sums + i * Shape::kThreads);
        part[0] += before.x;
        part[1] += before.y;
        part[2] += before.z;
        part[3] += before.w;
      }
      if (!ends) {
        __stcg(sums + i * Shape::kThreads, make_float4(part[0], part[1], part[2], part[3]));
      }
    }
    __syncthreads();
    if (threadIdx.x == 0 && !ends) {
      pass_turn(turn, rank + 1);
    }
  }

  __device__ void store() const {
    const AttentionArguments& a = walk.a;
    const Work& work = walk.work;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      int key = work.first + key_row + 16 * r;
      int64_t at =
          (work.key_row + key) * a.p.dkv_stride + static_cast<int64_t>(work.head) * a.p.head_dim + key_column;
      int columns = a.p.head_dim - key_column;
      store_rows<T, Shape::kKeyColumns>(dk[r], static_cast<T*>(a.p.dk) + at, a.p.dkv_stride, work.keys - key,
                                        columns, make_float2(a.p.scale, a.p.scale));
      store_rows<T, Shape::kKeyColumns>(dv[r], static_cast<T*>(a.p.dv) + at, a.p.dkv_stride, work.keys - key,
                                        columns, make_float2(1, 1));
    }
  }
};

// kShared: blocks share key tiles. A kernel of its own, as the others would be 1.5% slower for it.
template <typename T, class Shape, bool kShared>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    one_pass_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  GradientWalk<Shape> walk{a};
  int tile_blocks = kShared ? a.tile_blocks : 1;
  int tile = static_cast<int>(blockIdx.x) / tile_blocks;
  int rank = static_cast<int>(blockIdx.x) % tile_blocks;
  // The block that adds up last has the most steps.
  if (!walk.find(tile, tile_blocks - 1 - rank, tile_blocks)) {
    return;
  }
  int warp = static_cast<int>(threadIdx.x) / 32;
  OnePass<T, Shape> pass{walk,
                         shared,
                         shared_address(shared),
                         warp % Shape::kKeyWarps * 32,
                         warp / Shape::kKeyWarps * Shape::kScoreColumns,
                         warp / Shape::kKeyWarps * Shape::kKeyColumns,
                         warp % Shape::kQueryWarps * 32,
                         warp / Shape::kQueryWarps * Shape::kQueryColumns};
  clear<Shape::kRowTiles, Shape::kKeyColumns / 8>(pass.dk);
  clear<Shape::kRowTiles, Shape::kKeyColumns / 8>(pass.dv);
  auto prefetch = [&](int step) {
    if (step < walk.steps) {
      load_queries<T>(walk, step, pass.memory);
    }
    commit_copies();
  };
  load_keys<T>(walk, pass.memory);
  prefetch(0);
  for (int step = 0; step < walk.steps; ++step) {
    wait_copies<0>();
    __syncthreads();  // the step's queries are there, and nobody works on the last step any more
    if (Shape::kStages == 2) {
      prefetch(step + 1);
    }
    pass_turn_of(walk, step - 1);
    pass.make_scores(step);
    wait_turn_of(walk, step);
    __syncthreads();
    pass.add_keys(step);
    if (Shape::kStages == 1) {
      __syncthreads();
      prefetch(step + 1);
    }
    pass.make_dq(step);
  }
  wait_copies<0>();
  __syncthreads();
  pass_turn_of(walk, walk.steps - 1);
  if (!kShared || pass.add_up(static_cast<int>(blockIdx.x) % a.tile_blocks)) {
    pass.store();
  }
}

template <typename T, class Shape>
cudaError_t launch(AttentionArguments a, cudaStream_t stream) {
  set_gradient_tiles(a, Shape::kKeys, Shape::kQueries);
  a.pairs_apart = true;
  int64_t tiles = tile_slots(a.p.keys, a.p.sequences, Shape::kKeys) * a.p.kv_heads;
  cudaError_t status = make_rows(a, stream);
  if (status == cudaSuccess) {
    auto* kernel = a.tile_blocks > 1 ? one_pass_kernel<T, Shape, true> : one_pass_kernel<T, Shape, false>;
    status = launch_attention(kernel, a, {tiles * a.tile_blocks, Shape::kThreads, Shape::kBytes}, stream);
  }
  return status == cudaSuccess ? round_query_gradient(a, stream) : status;
}

// How many blocks share a key tile, and how long the gradient takes then: in tenths of a step with 64 keys.
struct Way {
  int tile_blocks = 1;
  int64_t time = INT64_MAX;
};

// The longest block's time or, if that is more, a processor's share of all blocks', in steps, doubled.
// Beginning and ending takes about a step, and where blocks share a tile, one more for each, as they add up
// one after another.
template <class Shape>
int64_t time_of(const AttentionArguments& a, int tile_blocks, int64_t blocks_at_once) {
  int64_t tiles = (a.p.keys + Shape::kKeys - 1) / Shape::kKeys * a.p.kv_heads;
  int64_t longest = (a.p.queries / a.p.sequences + Shape::kQueries - 1) / Shape::kQueries * a.group;
  int64_t steps = a.p.causal ? longest + a.group : 2 * longest;  // of a key tile
  int64_t ends = tile_blocks == 1 ? 2 : 2 * tile_blocks + 2;
  return std::max(tiles * (steps + tile_blocks * ends) / blocks_at_once, 2 * longest / tile_blocks + ends);
}

constexpr int kMostTileBlocks = 8;

template <class Shape>
Way choose_way(const AttentionArguments& a, const Card& card) {
  Way best;
  int blocks_at_once = card.processors * std::min(Shape::kBlocks, card.shared_limit_bytes / Shape::kBytes);
  int64_t slots = tile_slots(a.p.keys, a.p.sequences, Shape::kKeys) * a.p.kv_heads;
  bool may_share = slots * 2 * Shape::kKeys * Shape::kHeadDim * 4 <= a.dkv_bytes;
  for (int blocks = 1; blocks <= (may_share ? kMostTileBlocks : 1); ++blocks) {
    if (may_share && a.p.key_tile_blocks > 0 && blocks != a.p.key_tile_blocks) {
      continue;
    }
    // A step with 128 keys takes about 1.4 times as long as one with 64.
    int64_t time = (Shape::kKeys == 64 ? 5 : 7) * time_of<Shape>(a, blocks, blocks_at_once);
    if (time < best.time) {
      best = {blocks, time};
    }
  }
  return best;
}

// The fastest of the shapes that the card has room for; false: none.
template <typename T, class... Shapes>
bool launch_fastest(AttentionArguments a, const Card& card, cudaStream_t stream, cudaError_t& status) {
  Way best;
  cudaError_t (*launch_best)(AttentionArguments, cudaStream_t) = nullptr;
  auto consider = [&](auto shape) {
    using Shape = decltype(shape);
    Way way = Shape::kBytes <= card.shared_limit_bytes ? choose_way<Shape>(a, card) : Way{};
    if (way.time < best.time) {
      best = way;
      launch_best = launch<T, Shape>;
    }
  };
  (consider(Shapes{}), ...);
  if (launch_best == nullptr) {
    return false;
  }
  a.tile_blocks = best.tile_blocks;
  a.batch_sequences = std::max(1, card.processors / 4 / (a.p.kv_heads * best.tile_blocks));
  status = launch_best(a, stream);
  return true;
}

template <typename T>
bool launch_for_head(const AttentionArguments& a, const Card& card, cudaStream_t stream,
                     cudaError_t& status) {
  if (a.p.head_dim <= 64) {
    return launch_fastest<T, OnePassShape<64, 4, 128, 1, 2>>(a, card, stream, status);
  }
  using Large = OnePassShape<128, 8, 128, 2, 1>;
  using Small = OnePassShape<128, 8, 64, 2, 1>;
  using Smallest = OnePassShape<128, 8, 64, 1, 1>;
  return launch_fastest<T, Large, Small, Smallest>(a, card, stream, status);
}

}  // namespace

bool one_pass_backward(AttentionArguments a, const Card& card, cudaStream_t stream, cudaError_t& status) {
  if (a.p.bias != nullptr || a.p.random != nullptr || a.p.head_dim > 128 || a.p.dq == nullptr ||
      a.p.dk == nullptr) {
    return false;
  }
  return a.p.number == AttentionNumber::f16 ? launch_for_head<__half>(a, card, stream, status)
                                            : launch_for_head<__nv_bfloat16>(a, card, stream, status);
}

}  // namespace snug::cuda
