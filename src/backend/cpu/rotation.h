// The turn of a token's heads by its position, which rope and head_norm_rope share. It is compiled once: the
// same values give both the same bits, however products and sums are contracted.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace snug::cpu {

struct Rotation {
  const int32_t* positions;
  const float* frequencies;  // [head_dim / 2]
  int64_t head_dim;
  int64_t columns;         // of a row
  int64_t turned_columns;  // at its front
  float magnitude;
  float direction;  // -1: back

  // y (= or +=) x, a row each, with its heads turned; the other columns are taken over. y may be x.
  template <bool kAccumulate, typename T>
  void turn(int64_t token, const T* x, T* y) const;
};

extern template void Rotation::turn<false>(int64_t, const float*, float*) const;
extern template void Rotation::turn<true>(int64_t, const float*, float*) const;
extern template void Rotation::turn<false>(int64_t, const bf16_t*, bf16_t*) const;
extern template void Rotation::turn<true>(int64_t, const bf16_t*, bf16_t*) const;

}  // namespace snug::cpu
