// The dropout of attention's weights (backend/dropout_mask.h) on scores that a warp holds in registers. Eight
// keys of a query share the words of one call; the lanes that hold them share the work of making those.
#pragma once

#include <type_traits>

#include "backend/cuda/attention/work.cuh"
#include "backend/dropout_mask.h"

namespace snug::cuda {

struct WeightMask {
  uint64_t seed;
  uint64_t stream;
  int64_t first_token;
  int heads;
  uint32_t limit;  // a weight is kept if its half of a word is at least this
  float kept;      // what it is multiplied with, then

  __device__ explicit WeightMask(const AttentionArguments& a)
      : seed(static_cast<uint64_t>(a.p.random[0])),
        stream(mask_stream(a.p.dropout_stream, a.p.random[1])),
        first_token(a.p.random[2]),
        heads(a.p.heads),
        limit(a.keep_limit),
        kept(a.kept_scale) {}

  // The words of the keys [8 * group, 8 * group + 8). `query` is a row of q.
  __device__ std::array<uint32_t, 4> words(int query, int head, int group) const {
    uint64_t first = first_weight_group(first_token + query, heads, head);
    return mask_words(seed, stream, first + static_cast<uint64_t>(group));
  }

  __device__ float factor(int query, int head, int key) const {
    auto four = words(query, head, key / kMaskGroup);
    return mask_half(pick(four, key % kMaskGroup / 2), key) >= limit ? kept : 0.0F;
  }

  static __device__ uint32_t pick(const std::array<uint32_t, 4>& four, int index) {
    uint32_t low = (index & 1) != 0 ? four[1] : four[0];
    uint32_t high = (index & 1) != 0 ? four[3] : four[2];
    return (index & 2) != 0 ? high : low;
  }

  // Bit 4 * n + e: whether the lane's element e of column block n is kept, in scores of 16 queries (rows)
  // from `query` on and 8 * kBlocks keys (columns) from `first_key` on, a multiple of 8. Four lanes hold the
  // eight keys of two rows: of two column blocks each makes the words of one, for one of the rows. A lane
  // needs the same word of all of them, the one with its two keys.
  template <int kBlocks>
  __device__ uint32_t kept_of_rows(int query, int head, int first_key) const {
    static_assert(kBlocks <= 8 && kBlocks % 2 == 0);
    int lane = static_cast<int>(threadIdx.x & 31);
    int mine = lane & 3;  // in bit 0 the row, in bit 1 the column block
    int mine_query = query + (lane >> 2) + 8 * (mine & 1);
    uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      auto four = words(mine_query, head, first_key / kMaskGroup + n + (mine >> 1));
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        uint32_t word = __shfl_xor_sync(0xffffffffU, pick(four, mine ^ k), k);
        int from = mine ^ k;
        uint32_t both = static_cast<uint32_t>(mask_half(word, 0) >= limit) |
                        static_cast<uint32_t>(mask_half(word, 1) >= limit) << 1;
        bits |= both << (4 * (n + (from >> 1)) + 2 * (from & 1));
      }
    }
    return bits;
  }

  // The same for 16 keys (rows) from `first_key` on, a multiple of 8, and 8 * kBlocks queries (columns).
  // Eight lanes hold eight keys, and eight more, of two queries: of two column blocks each makes the words of
  // one, for one of the queries and half of the keys. A lane needs the word with its key of all of them.
  template <int kBlocks>
  __device__ uint32_t kept_of_columns(int query, int head, int first_key) const {
    static_assert(kBlocks <= 8 && kBlocks % 2 == 0);
    int lane = static_cast<int>(threadIdx.x & 31);
    int mine =
        lane >> 2;  // the key; and in bit 0 the query, in bit 1 the half of the keys, in bit 2 the block
    int mine_query = query + 2 * (lane & 3) + (mine & 1) + 8 * (mine >> 2);
    int group = first_key / kMaskGroup + ((mine >> 1) & 1);
    uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      auto four = words(mine_query + 8 * n, head, group);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        int from = mine ^ k;
        uint32_t word = __shfl_xor_sync(0xffffffffU, pick(four, from >> 1), k << 2);
        bits |= static_cast<uint32_t>(mask_half(word, mine & 1) >= limit)
                << (4 * (n + (from >> 2)) + (from & 3));
      }
    }
    return bits;
  }

  // The weights of 16 queries from `query` on and 8 * kBlocks keys from `first_key` on, dropped in place.
  template <int kBlocks>
  __device__ void drop_rows(float (&weights)[kBlocks][4], int query, int head, int first_key) const {
    constexpr int kAtOnce = kBlocks < 8 ? kBlocks : 8;
#pragma unroll
    for (int n = 0; n < kBlocks; n += kAtOnce) {
      auto& some = reinterpret_cast<float(&)[kAtOnce][4]>(weights[n]);
      apply(some, kept_of_rows<kAtOnce>(query, head, first_key + 8 * n), some);
    }
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

// For kernels that are compiled with dropout and without.
struct NoMask {
  __device__ explicit NoMask(const AttentionArguments&) {}
};
template <class Shape>
using MaskOf = std::conditional_t<Shape::kDropout, WeightMask, NoMask>;

}  // namespace snug::cuda
