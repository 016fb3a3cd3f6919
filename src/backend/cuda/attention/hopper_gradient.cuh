// What lies around the working groups of attention's gradient on Hopper (hopper_gradient.cu): the shape of a
// block, its walk over the queries, the warp that fetches them and those that take dq away.
#pragma once

#include "backend/cuda/attention/copy_engine.cuh"
#include "backend/cuda/attention/hopper.cuh"
#include "backend/cuda/attention/one_pass.cuh"

namespace snug::cuda {

inline constexpr int kFetchingThreads = 32;
inline constexpr int kWriters = 2;  // warps after the fetching one

// What the end of a block needs to know of its work.
struct FinishedWork {
  Work work;
  int sequence = 0;
  int last_tile = 0;
};

template <int kHeadDimension, bool kHasBias, bool kDrops>
struct HopperGradientShape : RegisterSplit<24, 240> {
  static constexpr int kHeadDim = kHeadDimension;  // padded
  static constexpr bool kBias = kHasBias;
  static constexpr bool kDropout = kDrops;
  static constexpr int kGroupKeys = 64;
  static constexpr int kKeys = kGroupKeys * kWorkingGroups;
  static constexpr int kQueries = kHeadDim <= 64 ? 128 : 64;
  static constexpr int kStages = 2;
  // Scores are made of so many queries at a time: a part.
  static constexpr int kPartQueries = 64;
  static constexpr int kParts = kQueries / kPartQueries;
  static constexpr int kPartBytes = kPartQueries * 128;  // from part to part, in the first panel
  // dq of a tile [kQueries, kHeadDim] is shared out by columns or by queries, 64 of either to a group.
  static constexpr bool kShareColumns = kHeadDim == 128;
  static_assert(kQueries * kHeadDim == 64 * 64 * kWorkingGroups);
  static constexpr int kGroupBytes = kGroupKeys * kHeadDim * 2;
  static constexpr int kQueryBytes = kQueries * kHeadDim * 2;
  // Per group keys and values; the ring of queries and output gradients; dscores^T; dq; the ring of
  // log-sum-exps and sums; the barriers; then the bias's tables.
  static constexpr int kQueriesAt = 2 * kWorkingGroups * kGroupBytes;
  static constexpr int kScoresAt = kQueriesAt + 2 * kStages * kQueryBytes;
  static constexpr int kSumsAt = kScoresAt + kKeys * kQueries * 2;
  static constexpr int kSumsBytes = kQueries * kHeadDim * 4;
  static constexpr int kSums = kBias ? 1 : 2;  // as many as there is room for
  static constexpr int kRowsAt = kSumsAt + kSums * kSumsBytes;
  static constexpr int kRowsBytes = (kQueries + 2) * 8;
  static constexpr int kBarriersAt = kRowsAt + kStages * kRowsBytes;
  static constexpr int kWorkAt = kBarriersAt + kStages * 16 + kWriters * 16 + 16;
  static constexpr int kBytes = (kWorkAt + static_cast<int>(sizeof(FinishedWork)) + 127) / 128 * 128;
  // What a cluster adds up: dk and dv of the tile in fp32, over everything that only the working groups read.
  // Parts of dq may still be on their way. The pitch avoids bank conflicts.
  static constexpr int kPitch = kHeadDim + 8;
  static_assert(2 * kKeys * kPitch * 4 <= kSumsAt);
};

#ifdef SNUG_HOPPER

template <class Shape>
struct GradientBlock : GradientWalk<Shape> {
  unsigned char* shared = nullptr;
  uint32_t memory = 0;
  Ring<Shape::kStages> ring;
  int direct_from = 0;  // from this step on dq is complete and goes straight to its place

  __device__ uint32_t keys_of(int group) const { return memory + 2 * group * Shape::kGroupBytes; }
  __device__ uint32_t q_tile(int step) const {
    return memory + Shape::kQueriesAt + step % Shape::kStages * 2 * Shape::kQueryBytes;
  }
  __device__ int rows_at(int step) const {
    return Shape::kRowsAt + step % Shape::kStages * Shape::kRowsBytes;
  }
  __device__ uint32_t sums_at(int step) const {
    return memory + Shape::kSumsAt + step % Shape::kSums * Shape::kSumsBytes;
  }
  // Where the cluster's other blocks read a row of dk or dv (store_key_row).
  __device__ uint32_t sums_to_publish(int item, int column) const {
    return memory +
           static_cast<uint32_t>((((item & 1) * Shape::kKeys + (item >> 1)) * Shape::kPitch + column) * 4);
  }
  // Completed once a step: both groups have read the dscores.
  __device__ uint32_t scores_read() const { return memory + Shape::kBarriersAt + Shape::kStages * 16; }
  // A tile with queries of nobody has arrived.
  __device__ uint32_t tail_there() const { return scores_read() + 8; }
  // Of the step's writer: dq is in shared memory; it has been read.
  __device__ uint32_t sums_made(int step) const { return scores_read() + 16 + step % kWriters * 16; }
  __device__ uint32_t sums_read(int step) const { return sums_made(step) + 8; }

  __device__ void start() {
    ring.start(memory + Shape::kBarriersAt, 1);
    if (threadIdx.x == 0) {
      start_barrier(scores_read(), kWorkingGroups * 4);
      start_barrier(tail_there(), 1);
      for (int i = 0; i < kWriters; ++i) {
        start_barrier(sums_made(i), kWorkingGroups * 4);
        start_barrier(sums_read(i), 1);
      }
      fence_copy_engine();
      *reinterpret_cast<FinishedWork*>(shared + Shape::kWorkAt) = {this->work, this->sequence,
                                                                   this->last_tile};
    }
  }
  // What was found of the work, again: registers were needed for something else.
  __device__ void recall() {
    auto saved = *reinterpret_cast<const FinishedWork*>(shared + Shape::kWorkAt);
    this->work = saved.work;
    this->sequence = saved.sequence;
    this->last_tile = saved.last_tile;
  }
};

// False: there is no such tile.
template <class Shape>
__device__ inline bool find_gradient_work(GradientBlock<Shape>& block) {
  bool found = block.find(static_cast<int>(blockIdx.x) / cluster_size(), cluster_rank(), cluster_size());
  block.direct_from = block.a.rounds_dq && block.key_tile == 0 ? block.first_finished() : block.steps;
  return found;
}

// Queries, output gradients and rows of a step to shared memory. The rows begin at an even one, as the copy
// engine wants 16 bytes.
template <class Shape>
__device__ inline void start_step(const GradientBlock<Shape>& block, int step, int head, int query,
                                  uint32_t barrier, const CUtensorMap& q_map, const CUtensorMap& dout_map) {
  expect_bytes(barrier, 2 * Shape::kQueryBytes + Shape::kRowsBytes);
  uint32_t to = block.q_tile(step);
#pragma unroll
  for (int panel = 0; panel < Shape::kHeadDim / 64; ++panel) {
    uint32_t at = to + panel * Shape::kQueries * 128;
    start_panel(at, q_map, 64 * panel, head, query, barrier);
    start_panel(at + Shape::kQueryBytes, dout_map, 64 * panel, head, query, barrier);
  }
  int64_t row = head * block.a.p.queries + query;
  start_read(block.memory + block.rows_at(step), block.a.rows + (row & ~int64_t{1}), Shape::kRowsBytes,
             barrier);
}

// Queries beyond the sequence's last become zeros: they may be another sequence's, or nobody's.
template <class Shape>
__device__ inline void clear_beyond(const GradientBlock<Shape>& block, int step, int count, int odd) {
  int lane = static_cast<int>(threadIdx.x & 31);
  auto* q_tile = block.shared + (block.q_tile(step) - block.memory);
  for (int i = count * 8 + lane; i < Shape::kQueries * 8; i += 32) {
#pragma unroll
    for (int panel = 0; panel < 2 * Shape::kHeadDim / 64; ++panel) {
      reinterpret_cast<uint4*>(q_tile + panel * Shape::kQueries * 128)[i] = make_uint4(0, 0, 0, 0);
    }
  }
  auto* rows = reinterpret_cast<float2*>(block.shared + block.rows_at(step)) + odd;
  for (int i = count + lane; i < Shape::kQueries; i += 32) {
    rows[i] = make_float2(0, 0);
  }
  publish_writes();
}

// One warp.
template <class Shape>
__device__ inline void fetch(const GradientBlock<Shape>& block, const CUtensorMap& q_map,
                             const CUtensorMap& dout_map) {
  bool leads = (threadIdx.x & 31) == 0;
  int tails = 0;
#pragma unroll 1
  for (int step = 0; step < block.steps; ++step) {
    int head = block.head(step);
    int tile = block.tile(step);
    int count = block.work.queries - tile * Shape::kQueries;
    int query = block.work.query_row + tile * Shape::kQueries;
    wait_barrier(block.ring.empty_of(step), (step / Shape::kStages & 1) ^ 1);
    if (count >= Shape::kQueries) {
      if (leads) {
        start_step(block, step, head, query, block.ring.full_of(step), q_map, dout_map);
      }
      continue;
    }
    if (leads) {
      start_step(block, step, head, query, block.tail_there(), q_map, dout_map);
    }
    wait_barrier(block.tail_there(), tails & 1);
    ++tails;
    clear_beyond(block, step, count, static_cast<int>((head * block.a.p.queries + query) & 1));
    __syncwarp();
    if (leads) {
      arrive(block.ring.full_of(step));
    }
  }
}

// One thread of each writer: adds the parts of dq to the sums in global memory when the key tile's turn has
// come. The first key tile that a query tile sees writes them. Writers take steps in turn, as a step may be
// shorter than it takes until the sums have arrived.
template <class Shape>
__device__ inline void add_dq(const GradientBlock<Shape>& block, int writer) {
  constexpr int kSlotBytes = kGradientSumRows * Shape::kHeadDim * 4;
  int steps = min(block.steps, block.direct_from);
  for (int step = writer; step < steps; step += kWriters) {
    QuerySums to = block.sums_of(step);
    uint32_t from = block.sums_at(step);
    wait_barrier(block.sums_made(step), step / kWriters & 1);
    if (to.mine == 0) {
      start_write(to.sums, from, to.slots * kSlotBytes);
    } else {
      while (read_turn(to.turn) != to.mine) {
      }
      fence_copy_engine_global();
      start_add(to.sums, from, to.slots * kSlotBytes);
    }
    wait_read();
    arrive(block.sums_read(step));
    wait_written();  // after which the engine's writes are as this thread's own
    pass_turn(to.turn, to.mine + 1);
  }
}

#endif  // SNUG_HOPPER

}  // namespace snug::cuda
