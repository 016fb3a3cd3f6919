// What the kernels share that make attention's gradient in one pass (docs/decisions/0020): the walk of a tile
// of keys over the queries that see it, and the turns in which the key tiles add their parts of dq.
#pragma once

#include "backend/cuda/attention/work.cuh"

namespace snug::cuda {

// Where a step's part of dq goes.
struct QuerySums {
  float* sums = nullptr;    // of the tile's first slot
  int slots = 0;            // of kGradientSumRows queries, as many as there are queries
  int32_t* turn = nullptr;  // key tiles that have added to it
  int mine = 0;             // this key tile's number among them; the first one writes
};

// The last tile of all heads, then the one before. So all key tiles of a sequence come to the same queries at
// the same time after their start, however many queries they have.
template <class Shape>
struct GradientWalk {
  const AttentionArguments& a;
  Work work;
  int sequence = 0;
  int key_tile = 0;
  int first_head = 0;
  int heads = 0;
  int first_tile = 0;
  int last_tile = 0;
  int steps = 0;
  uint32_t inverse = 0;  // of heads, by 2^31

  __device__ int tile(int step) const { return last_tile - rounds(step); }
  __device__ int head(int step) const { return first_head + step - rounds(step) * heads; }
  // step / heads, which is exact below 2^31 / heads.
  __device__ int rounds(int step) const { return static_cast<int>(__umulhi(2 * step, inverse)); }

  // The item-th tile in the order of work, and `count` of its group's query heads from `first` on. False:
  // there is no such tile.
  __device__ bool find(int item, int first, int count) {
    work.head = item % a.p.kv_heads;
    work.slot = item / a.p.kv_heads;
    first_head = work.head * a.group + first;
    heads = count;
    inverse = ((1U << 31) + heads - 1) / heads;
    int2 place = a.key_tiles[work.slot];
    if (place.x < 0) {
      return false;
    }
    sequence = place.x;
    key_tile = place.y;
    work.query_row = a.p.q_offsets[sequence];
    work.queries = a.p.q_offsets[sequence + 1] - work.query_row;
    work.key_row = a.p.kv_offsets[sequence];
    work.keys = a.p.kv_offsets[sequence + 1] - work.key_row;
    work.shift = work.keys - work.queries;
    work.first = key_tile * Shape::kKeys;
    Range queries = queries_of_keys(a, work, Shape::kKeys);
    if (queries.first < queries.last) {
      first_tile = queries.first / Shape::kQueries;
      last_tile = (queries.last - 1) / Shape::kQueries;
      steps = (last_tile + 1 - first_tile) * heads;
    }
    return true;
  }

  __device__ QuerySums sums_of(int step) const {
    int first = tile(step) * Shape::kQueries;
    int rows = min(Shape::kQueries, work.queries - first);
    int64_t slot = static_cast<int64_t>(head(step)) * a.sum_slots + work.query_row / kGradientSumRows +
                   sequence + first / kGradientSumRows;
    int64_t turn = static_cast<int64_t>(head(step)) * a.query_tiles + work.query_row / Shape::kQueries +
                   sequence + tile(step);
    int first_key_tile = max(0, first + work.shift + a.lowest) / Shape::kKeys;
    return {a.dq_sums + slot * (kGradientSumRows * Shape::kHeadDim),
            (rows + kGradientSumRows - 1) / kGradientSumRows, a.turns + turn, key_tile - first_key_tile};
  }
};

__device__ inline int read_turn(const int32_t* turn) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];\n" : "=r"(value) : "l"(turn) : "memory");
  return value;
}
__device__ inline void pass_turn(int32_t* turn, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;\n" ::"l"(turn), "r"(value) : "memory");
}

}  // namespace snug::cuda
