// Relative positions as T5 sorts them into buckets: near distances have one each, far ones share
// logarithmically.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "program/op.h"

namespace snug {

struct RelativeBuckets {
  int64_t count = 0;
  int64_t max_distance = 0;
  bool bidirectional = false;  // keys before and after the query have buckets of their own
};

inline RelativeBuckets buckets_of(const AttentionAttributes& attributes) {
  return {attributes.relative_buckets, attributes.relative_max_distance, attributes.bidirectional_buckets};
}

// The bucket of a key that stands `distance` positions after its query (before it, if negative). Computed in
// fp32 as Hugging Face does: a distance on the border between two buckets falls to the same side.
inline int64_t relative_bucket(const RelativeBuckets& all, int64_t distance) {
  int64_t buckets = all.count;
  int64_t first = 0;
  if (all.bidirectional) {
    buckets /= 2;
    first = distance > 0 ? buckets : 0;
    distance = std::abs(distance);
  } else {
    distance = std::max<int64_t>(-distance, 0);
  }
  int64_t exact = buckets / 2;
  if (distance < exact) {
    return first + distance;
  }
  if (distance >= all.max_distance) {
    return first + buckets - 1;
  }
  auto near = static_cast<float>(exact);
  auto octaves =
      static_cast<float>(std::log(static_cast<double>(all.max_distance) / static_cast<double>(exact)));
  float place = std::log(static_cast<float>(distance) / near) / octaves * static_cast<float>(buckets - exact);
  return first + std::min(exact + static_cast<int64_t>(place), buckets - 1);
}

}  // namespace snug
