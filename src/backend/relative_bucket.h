// Relative positions as T5 sorts them into buckets: near distances have one each, far ones share
// logarithmically.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "program/op.h"

namespace snug {

// The bucket of a key that stands `distance` positions after its query (before it, if negative). Computed in
// fp32 as Hugging Face does: a distance on the border between two buckets falls to the same side.
inline int64_t relative_bucket(const AttentionAttributes& attributes, int64_t distance) {
  int64_t buckets = attributes.relative_buckets;
  int64_t first = 0;
  if (attributes.bidirectional_buckets) {
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
  if (distance >= attributes.relative_max_distance) {
    return first + buckets - 1;
  }
  auto near = static_cast<float>(exact);
  auto octaves = static_cast<float>(
      std::log(static_cast<double>(attributes.relative_max_distance) / static_cast<double>(exact)));
  float place = std::log(static_cast<float>(distance) / near) / octaves * static_cast<float>(buckets - exact);
  return first + std::min(exact + static_cast<int64_t>(place), buckets - 1);
}

}  // namespace snug
