// How the optimizer's kernels share out the elements of a tensor.
#pragma once

#include <cstdint>

namespace snug::cuda {

inline constexpr int64_t kBlockElements = 8192;

inline int64_t blocks_of(int64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}

}  // namespace snug::cuda
