// The dropout of attention's weights (backend/dropout_mask.h) on scores that a warp holds in registers. Four
// keys of a query share one call of philox; the lanes that hold them share its work.
#pragma once

#include "backend/cuda/attention/work.cuh"
#include "backend/dropout_mask.h"

namespace snug::cuda {

struct WeightMask {
  uint64_t seed;
  uint64_t stream;
  int64_t first_token;
  int heads;
  uint32_t limit;  // a weight is kept if its word is at least this
  float kept;      // what it is multiplied with, then

  __device__ explicit WeightMask(const AttentionArguments& a)
      : seed(static_cast<uint64_t>(a.p.random[0])),
        stream(mask_stream(a.p.dropout_stream, a.p.random[1])),
        first_token(a.p.random[2]),
        heads(a.p.heads),
        limit(a.keep_limit),
        kept(a.kept_scale) {}

  // The words of the keys [4 * group, 4 * group + 4). `query` is a row of q.
  __device__ std::array<uint32_t, 4> words(int query, int head, int group) const {
    uint64_t first = first_weight_group(first_token + query, heads, head);
    return philox(seed, stream, first + static_cast<uint64_t>(group));
  }

  __device__ float factor(int query, int head, int key) const {
    auto four = words(query, head, key / 4);
    return pick(four, key % 4) >= limit ? kept : 0.0F;
  }

  static __device__ uint32_t pick(const std::array<uint32_t, 4>& four, int index) {
    uint32_t low = (index & 1) != 0 ? four[1] : four[0];
    uint32_t high = (index & 1) != 0 ? four[3] : four[2];
    return (index & 2) != 0 ? high : low;
  }

  // Bit 4 * n + e: whether the lane's element e of column block n is kept, in scores of 16 queries (rows)
  // from `query` on and 8 * kBlocks keys (columns) from `first_key` on, a multiple of 4. Of two neighbouring
  // lanes, which hold the same four keys, one makes the words of the upper row and one those of the lower.
  template <int kBlocks>
  __device__ uint32_t kept_of_rows(int query, int head, int first_key) const {
    static_assert(kBlocks <= 8);
    int lane = static_cast<int>(threadIdx.x & 31);
    bool odd = (lane & 1) != 0;
    int mine = query + (lane >> 2) + (odd ? 8 : 0);
    uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      auto four = words(mine, head, first_key / 4 + 2 * n + ((lane & 2) >> 1));
      uint32_t other[2] = {__shfl_xor_sync(0xffffffffU, odd ? four[0] : four[2], 1),
                           __shfl_xor_sync(0xffffffffU, odd ? four[1] : four[3], 1)};
      uint32_t own[2] = {odd ? four[2] : four[0], odd ? four[3] : four[1]};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        bool is_own = (e >= 2) == odd;
        bits |= static_cast<uint32_t>((is_own ? own[e & 1] : other[e & 1]) >= limit) << (4 * n + e);
      }
    }
    return bits;
  }

  // The same for 16 keys (rows) from `first_key` on, a multiple of 4, and 8 * kBlocks queries (columns). Four
  // lanes hold four keys of the same queries: each makes the words of one of its elements for all of them.
  template <int kBlocks>
  __device__ uint32_t kept_of_columns(int query, int head, int first_key) const {
    static_assert(kBlocks <= 8);
    int lane = static_cast<int>(threadIdx.x & 31);
    int mine = (lane >> 2) & 3;  // the element, and the key's place among the four
    int first_query = query + 2 * (lane & 3) + (mine & 1);
    int group = first_key / 4 + (lane >> 4) + (mine & 2);
    uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      auto four = words(first_query + 8 * n, head, group);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        uint32_t word = __shfl_xor_sync(0xffffffffU, pick(four, mine ^ k), k << 2);
        bits |= static_cast<uint32_t>(word >= limit) << (4 * n + (mine ^ k));
      }
    }
    return bits;
  }

  // to = from where it is kept, scaled; `to` may be `from`.
  template <int kBlocks>
  __device__ void apply(const float (&from)[kBlocks][4], uint32_t bits, float (&to)[kBlocks][4]) const {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        to[n][e] = (bits >> (4 * n + e) & 1U) != 0 ? from[n][e] * kept : 0.0F;
      }
    }
  }
};

}  // namespace snug::cuda
