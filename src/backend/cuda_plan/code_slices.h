// How much of a weight of codes is dequantised at once: what the plan reserves and the kernels use.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"

namespace snug::cuda {

// Large enough that the products lose nothing, a fraction of what a layer's weights would take in 16 bits.
inline constexpr int64_t kSliceBytes = int64_t{64} << 20;
inline constexpr int64_t kSliceUnit = 64;  // keeps slices aligned for the products

// Rows (or columns) of a weight in a slice, of which each takes `across` elements.
constexpr int64_t slice_size(int64_t count, int64_t across, DType dtype) {
  int64_t fitting = kSliceBytes / (across * size_of(dtype)) / kSliceUnit * kSliceUnit;
  return std::min(count, std::max(fitting, kSliceUnit));
}

}  // namespace snug::cuda
