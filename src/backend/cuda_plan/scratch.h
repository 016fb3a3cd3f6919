// The CUDA kernels' workspace.
#pragma once

#include "backend/scratch.h"
#include "base/bytes.h"

namespace snug::cuda {

// As the plan aligns buffers: wide loads and the matrix products need no less.
using Scratch = AlignedScratch<kAlignment>;

template <typename T>
constexpr int64_t padded_bytes_of(int64_t count) {
  return Scratch::padded_bytes_of<T>(count);
}

}  // namespace snug::cuda
