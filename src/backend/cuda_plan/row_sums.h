// How sums over rows are cut into slices, whose partial sums lie in the workspace: by the number of rows
// alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace snug::cuda {

// Of column_sums.cuh.
inline constexpr int64_t kMostSlices = 128;
inline constexpr int64_t kSliceRows = 16;

inline int64_t slice_count(int64_t rows) {
  return std::clamp<int64_t>((rows + kSliceRows - 1) / kSliceRows, 1, kMostSlices);
}

// The partial sums of a bias's gradient.
inline int64_t bias_gradient_floats(int64_t rows, int64_t columns) {
  return slice_count(rows) * columns;
}

// Of the gradient of a norm's weight (norm.cu).
inline constexpr int kWidestNorm = 16384;  // numbers of a row: a group of warps holds one in registers

// Few rows a slice: a block takes them one after another, and even 1,024 are to give work to a whole card.
inline int64_t norm_slices(int64_t tokens) {
  constexpr int64_t kRows = 4;
  constexpr int64_t kMost = 256;
  return std::min((tokens + kRows - 1) / kRows, kMost);
}

}  // namespace snug::cuda
