// How much of a weight of codes is dequantised at once: what the plan reserves and the kernels use.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"

namespace snug::cuda {

// Larger slices are better: the last of a product's tiles are alone on the card. This is what a 7B model's
// largest weight takes in 16 bits, whose memory the gradients of the output head have needed already.
inline constexpr int64_t kSliceBytes = int64_t{264} << 20;
inline constexpr int64_t kSliceUnit = 256;  // the widest tile of the products

// Rows (or columns) of a weight in a slice, of which each takes `across` elements: as many in each slice but
// the last, in as few slices as kSliceBytes allows.
constexpr int64_t slice_size(int64_t count, int64_t across, DType dtype) {
  int64_t fitting = std::max(kSliceBytes / (across * size_of(dtype)), kSliceUnit);
  int64_t slices = (count + fitting - 1) / fitting;
  int64_t even = (count + slices - 1) / slices;
  int64_t whole_units = (even + kSliceUnit - 1) / kSliceUnit * kSliceUnit;
  return std::min(count, whole_units <= fitting ? whole_units : fitting / kSliceUnit * kSliceUnit);
}

}  // namespace snug::cuda
