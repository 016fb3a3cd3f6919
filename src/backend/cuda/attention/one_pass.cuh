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

// The last tile of all heads of the group, then the one before. So all key tiles of a sequence come to the
// same queries at the same time after their start, however many queries they have. Blocks that share a key
// tile take these steps in turn.
template <class Shape>
struct GradientWalk {
  const AttentionArguments& a;
  Work work;
  int sequence = 0;
  int key_tile = 0;
  int first_head = 0;  // of the group
  int last_tile = 0;
  int part = 0;  // of `parts` blocks
  int parts = 1;
  int steps = 0;
  uint32_t inverse = 0;  // of the group's heads, by 2^31

  __device__ int tile(int step) const { return last_tile - rounds(step); }
  __device__ int head(int step) const { return first_head + number(step) - rounds(step) * a.group; }
  // Among the steps of all parts.
  __device__ int number(int step) const { return step * parts + part; }
  // number / heads, which is exact below 2^31 / heads.
  __device__ int rounds(int step) const { return static_cast<int>(__umulhi(2 * number(step), inverse)); }

  // The item-th tile in the order of work, and a part of its steps. False: there is no such tile.
  __device__ bool find(int item, int of_part = 0, int of_parts = 1) {
    work.head = item % a.p.kv_heads;
    work.slot = item / a.p.kv_heads;
    first_head = work.head * a.group;
    part = of_part;
    parts = of_parts;
    inverse = ((1U << 31) + a.group - 1) / a.group;
    int2 place = a.p.sequences == 1 ? make_int2(0, work.slot) : a.key_tiles[work.slot];
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
    if (key_tile * Shape::kKeys >= work.keys || (a.pairs_tiles && !find_in_pair())) {
      return false;
    }
    work.first = key_tile * Shape::kKeys;
    Range queries = queries_of_keys(a, work, Shape::kKeys);
    if (queries.first < queries.last) {
      last_tile = (queries.last - 1) / Shape::kQueries;
      int all = (last_tile + 1 - queries.first / Shape::kQueries) * a.group;
      steps = (all + parts - 1 - part) / parts;
    }
    return true;
  }

  // A sequence's last two tiles share their blocks, of which a third takes the last tile: in causal attention
  // it has half as many queries. False: this is the last one, and blocks of the one before take it.
  __device__ bool find_in_pair() {
    int left = (work.keys - 1) / Shape::kKeys - key_tile;
    if (left == 0) {
      return key_tile == 0;
    }
    if (left == 1) {
      int of_last = (parts + 1) / 3;
      parts -= of_last;
      if (part >= parts) {
        ++key_tile;
        part -= parts;
        parts = of_last;
      }
    }
    return true;
  }

  // The first step from which on no later key tile adds to the queries: the walk's last ones.
  __device__ int first_finished() const {
    // Queries from here on see the next tile's keys, or are in a tile with some that do.
    int end = work.first + Shape::kKeys - work.shift;
    int end_tile = end < work.queries ? max(0, end) / Shape::kQueries : last_tile + 1;
    return max(0, (last_tile + 1 - end_tile) * a.group - part + parts - 1) / parts;
  }

  // The sums of a head's queries from `first` on.
  __device__ float* sums_from(int of_head, int first) const {
    int64_t slot = static_cast<int64_t>(of_head) * a.sum_slots + work.query_row / kGradientSumRows +
                   sequence + first / kGradientSumRows;
    return a.dq_sums + slot * (kGradientSumRows * Shape::kHeadDim);
  }

  __device__ QuerySums sums_of(int step) const {
    int first = tile(step) * Shape::kQueries;
    int rows = min(Shape::kQueries, work.queries - first);
    int64_t turn = static_cast<int64_t>(head(step)) * a.query_tiles + work.query_row / Shape::kQueries +
                   sequence + tile(step);
    int first_key_tile = max(0, first + work.shift + a.lowest) / Shape::kKeys;
    return {sums_from(head(step), first), (rows + kGradientSumRows - 1) / kGradientSumRows, a.turns + turn,
            key_tile - first_key_tile};
  }
};

}  // namespace snug::cuda
