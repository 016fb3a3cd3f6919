// Compiled for speed also under AddressSanitizer: rows.h says why.
#include "backend/cpu/rows.h"

#include <algorithm>

#include "backend/cpu/dispatch.h"

namespace snug::cpu {

void load_row(const float* from, float* to, int64_t count) {
  std::copy_n(from, count, to);
}

void load_row(const bf16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = to_float(from[i]);
  }
}

void store_row(const float* from, float* to, int64_t count) {
  std::copy_n(from, count, to);
}

void store_row(const float* from, bf16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = round_to_bf16(from[i]);
  }
}

}  // namespace snug::cpu
