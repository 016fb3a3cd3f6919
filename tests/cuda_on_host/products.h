// Matrix products of threads together, as cards' instructions make them: numbers of 16 bits, sums in fp32.
#pragma once

#include <array>
#include <cstdint>

#include "cuda_on_host/grid.h"

namespace snug::cuda_on_host {

inline constexpr int kDepth = 16;  // products a sum

// Where a lane has its numbers of a left operand of 16 rows: word i has two columns.
inline int left_row(int lane, int i) {
  return lane / 4 + 8 * (i & 1);
}
inline int left_column(int lane, int i) {
  return 2 * (lane % 4) + 8 * (i >> 1);
}

// A warp's: d[16, 8] += a[16, 16] b[8, 16]^T, each lane with its part.
struct WarpProduct {
  bool is_half;  // fp16, else bf16
  std::array<float*, kWarpThreads> d;
  std::array<const uint32_t*, kWarpThreads> a;
  std::array<std::array<uint32_t, 2>, kWarpThreads> b;
};
void multiply(const WarpProduct& product);

enum class Left { rows, columns, registers };

// A warpgroup's: d[64, columns] = or += a b^T, of which each warp makes 16 rows for itself, when it comes
// there. Operands in shared memory are told by descriptors (backend/cuda/attention/hopper.cuh).
struct GroupProduct {
  bool is_half;
  Left left;
  bool right_by_columns;
  bool add;
  int columns;
  int warp;  // of the group
  uint64_t a;
  uint64_t b;
  std::array<float*, kWarpThreads> d;
  std::array<std::array<uint32_t, 4>, kWarpThreads> left_words;  // where it lies in registers
};
void multiply(const GroupProduct& product);

}  // namespace snug::cuda_on_host
