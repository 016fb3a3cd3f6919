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
  static constexpr int64_t kElements = 4 * kGroups;

  DropoutFactors(const DropoutAttributes& attributes, const Tensor& random)
      : seed_(static_cast<uint64_t>(random.as<int64_t>()[0])),
        stream_(mask_stream(attributes.stream, random.as<int64_t>()[1])),
        probability_(attributes.probability),
        kept_(kept_scale(attributes.probability)) {
    SNUG_CHECK(attributes.probability >= 0 && attributes.probability < 1, "dropout probability in [0, 1)");
  }

  // Makes the factors of elements 4 * group and on, at least `count` and at most kElements: 1 / (1 - p) where
  // an element is kept, else 0.
  const float* make(uint64_t group, int64_t count = kElements) {
    size_t groups = static_cast<size_t>(std::min((count + 3) / 4, kGroups));
    lanes_.run(seed_, stream_, group, groups);
    for (size_t i = 0; i < groups; ++i) {
      for (size_t word = 0; word < 4; ++word) {
        // As a signed integer, because AVX2 converts those; 24 bits are the same either way.
        float fraction = static_cast<float>(static_cast<int32_t>(lanes_.words[word][i] >> 8)) * 0x1p-24F;
        factors_[4 * i + word] = fraction >= probability_ ? kept_ : 0.0F;
      }
    }
    return factors_;
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
  float probability_;
  float kept_;
  PhiloxLanes lanes_;
  float factors_[kElements];
};

}  // namespace snug::cpu
