// The CPU kernels' workspace.
#pragma once

#include "backend/scratch.h"

namespace snug::cpu {

// A cache line, so that threads do not write to the same one.
using Scratch = AlignedScratch<64>;

template <typename T>
constexpr int64_t padded_bytes_of(int64_t count) {
  return Scratch::padded_bytes_of<T>(count);
}

}  // namespace snug::cpu
