// What attention and its gradient share: how sequences are cut into blocks and which keys a query sees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backend/cpu/dropout_factors.h"
#include "backend/cpu/gemm.h"
#include "backend/relative_bucket.h"

namespace snug::cpu {

// A block of scores is [kQueryBlock, kKeyBlock]: with its keys and values it fits the second-level cache.
inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 256;

// Where one sequence lies in the rows of q and kv.
struct SequenceRows {
  int64_t query = 0;
  int64_t queries = 0;
  int64_t key = 0;
  int64_t keys = 0;
};

inline SequenceRows sequence_rows(const int32_t* query_offsets, const int32_t* key_offsets,
                                  int64_t sequence) {
  return {query_offsets[sequence], query_offsets[sequence + 1] - query_offsets[sequence],
          key_offsets[sequence], key_offsets[sequence + 1] - key_offsets[sequence]};
}

// Keys [first, last) of a sequence.
struct KeyRange {
  int64_t first = 0;
  int64_t last = 0;
};

// The last query stands at the last key, as decoding with a cache needs it.
inline KeyRange visible_keys(const AttentionAttributes& attributes, const SequenceRows& rows, int64_t query) {
  int64_t position = query + rows.keys - rows.queries;
  KeyRange range{0, rows.keys};
  if (attributes.causal) {
    range.last = std::clamp<int64_t>(position + 1, 0, rows.keys);
  }
  if (attributes.window > 0) {
    range.first = std::clamp<int64_t>(position - attributes.window + 1, 0, range.last);
  }
  return range;
}

// What any of the queries [first, first + count) sees; with dropout from a multiple of four on, where a group
// of its mask begins.
inline KeyRange visible_keys_of_block(const AttentionAttributes& attributes, const SequenceRows& rows,
                                      int64_t first, int64_t count) {
  KeyRange range{visible_keys(attributes, rows, first).first,
                 visible_keys(attributes, rows, first + count - 1).last};
  if (attributes.dropout.probability > 0) {
    range.first -= range.first % kMaskGroup;
  }
  return range;
}

// The dropout of one call's weights, if it has any; each thread has its own.
class WeightMask {
 public:
  WeightMask(const AttentionAttributes& attributes, std::span<const Tensor> inputs, size_t random)
      : heads_(attributes.heads) {
    if (attributes.dropout.probability > 0) {
      factors_.emplace(attributes.dropout, inputs[random]);
      first_token_ = inputs[random].as<int64_t>()[2];
    }
  }

  bool drops() const { return factors_.has_value(); }
  // What the weights of `query`, a row of q, and the keys [begin, begin + count) of its sequence are
  // multiplied with.
  const float* row(int64_t query, int64_t head, int64_t begin, int64_t count) {
    uint64_t group = first_weight_group(first_token_ + query, heads_, head);
    return factors_->make(group + static_cast<uint64_t>(begin / kMaskGroup), count);
  }

 private:
  std::optional<DropoutFactors> factors_;
  int64_t heads_;
  int64_t first_token_ = 0;
};
static_assert(kKeyBlock <= DropoutFactors::kElements);

// The same range as columns of the score block that starts at key `begin` and holds `count` keys.
inline KeyRange within_block(KeyRange range, int64_t begin, int64_t count) {
  int64_t first = std::clamp<int64_t>(range.first - begin, 0, count);
  return {first, std::clamp<int64_t>(range.last - begin, first, count)};
}

// Distances between the keys and the queries of one score block; a score's place among them is
// key - query + kQueryBlock - 1, both counted within the block.
inline constexpr int64_t kBlockDistances = kQueryBlock + kKeyBlock - 1;

// The distance that stands at place 0 when the block starts at query `first` and key `begin`.
inline int64_t first_distance(const SequenceRows& rows, int64_t first, int64_t begin) {
  return begin - (first + rows.keys - rows.queries) - (kQueryBlock - 1);
}

// The bias of one head at every distance of a score block, [kBlockDistances].
inline void load_bias(const AttentionAttributes& attributes, const Tensor& table, int64_t head,
                      int64_t distance, float* bias) {
  const RelativeBuckets buckets = buckets_of(attributes);
  for (int64_t place = 0; place < kBlockDistances; ++place) {
    int64_t element = relative_bucket(buckets, distance + place) * attributes.heads + head;
    bias[place] =
        table.dtype == DType::f32 ? table.as<float>()[element] : to_float(table.as<bf16_t>()[element]);
  }
}

// scores [queries, kKeyBlock] += bias.
inline void add_bias(const float* bias, int64_t queries, int64_t keys, float* scores) {
  for (int64_t i = 0; i < queries; ++i) {
    const float* row = bias + kQueryBlock - 1 - i;
    for (int64_t j = 0; j < keys; ++j) {
      scores[i * kKeyBlock + j] += row[j];
    }
  }
}

}  // namespace snug::cpu
