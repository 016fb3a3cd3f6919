// The masks of backend/dropout_mask.h as factors, many elements at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/backend.h"
#include "backend/dropout_mask.h"
#include "base/check.h"
#include "base/philox_lanes.h"

namespace snug::cpu {

class DropoutFactors {
 public:
  static constexpr auto kGroups = static_cast<int64_t>(PhiloxLanes::kLanes);
  static constexpr int64_t kElements = kMaskGroup * kGroups;

  DropoutFactors(const DropoutAttributes& attributes, const Tensor& random)
      : seed_(static_cast<uint64_t>(random.as<int64_t>()[0])),
        stream_(mask_stream(attributes.stream, random.as<int64_t>()[1])),
        limit_(static_cast<int32_t>(keep_limit(attributes.probability))),
        kept_(kept_scale(attributes.probability)) {
    SNUG_CHECK(attributes.probability >= 0 && attributes.probability < 1, "dropout probability in [0, 1)");
  }

  // Makes the factors of elements 8 * group and on, at least `count` and at most kElements: 1 / (1 - p) where
  // an element is kept, else 0.
  const float* make(uint64_t group, int64_t count = kElements) {
    auto groups = static_cast<size_t>(std::min((count + kMaskGroup - 1) / kMaskGroup, kGroups));
    lanes_.run<kMaskRounds>(seed_, stream_, group, groups);
    for (size_t i = 0; i < groups; ++i) {
      for (size_t element = 0; element < kMaskGroup; ++element) {
        uint32_t half = mask_half(lanes_.words[element / 2][i], static_cast<int>(element));
        factors_[kMaskGroup * i + element] = static_cast<int32_t>(half) >= limit_ ? kept_ : 0.0F;
      }
    }
    return factors_;
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
  int32_t limit_;  // signed, because AVX2 compares those
  float kept_;
  PhiloxLanes lanes_;
  float factors_[kElements];
};

}  // namespace snug::cpu
