// What the driver takes of a card beside the arena.
#pragma once

#include <cstdint>

namespace snug::cuda {

// What a driver's context takes on a card, where there is none to measure it on: measured on an H200 with
// driver 580, the largest card there is.
inline constexpr int64_t kTypicalContextBytes = int64_t{576} << 20;

// Kernels are loaded when they first run, and graphs are kept by the driver: measured for a 7B model with all
// phases, and rounded up.
inline constexpr int64_t kLateLoadingBytes = int64_t{64} << 20;

}  // namespace snug::cuda
