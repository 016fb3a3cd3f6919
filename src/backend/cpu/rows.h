// A row of numbers of any format as fp32 ones, and fp32 ones as a row. All of it must be memory: under
// AddressSanitizer these loops alone are compiled without it (cmake/SnugLayers.cmake), as they would be half
// of the time that training takes there, and whoever calls them asks it first (base/addressable.h).
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace snug::cpu {

void load_row(const float* from, float* to, int64_t count);
void load_row(const bf16_t* from, float* to, int64_t count);
void store_row(const float* from, float* to, int64_t count);
void store_row(const float* from, bf16_t* to, int64_t count);

}  // namespace snug::cpu
