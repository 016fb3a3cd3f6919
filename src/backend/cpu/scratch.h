// The CPU kernels' workspace.
#pragma once

#include <algorithm>

#include "backend/scratch.h"

namespace snug::cpu {

// A cache line, so that threads do not write to the same one.
using Scratch = AlignedScratch<64>;

template <typename T>
constexpr int64_t padded_bytes_of(int64_t count) {
  return Scratch::padded_bytes_of<T>(count);
}

// What the threads of one op have for themselves, all together: a machine of many cores takes no more memory
// than one of a few. Kernels cut their work into smaller blocks, or use fewer threads, where this would not
// be enough.
inline constexpr int64_t kThreadScratchBytes = int64_t{64} << 20;

// How many threads get a share of this size.
constexpr int scratch_slots(int threads, int64_t share_bytes) {
  return static_cast<int>(std::clamp<int64_t>(kThreadScratchBytes / share_bytes, 1, threads));
}

}  // namespace snug::cpu
