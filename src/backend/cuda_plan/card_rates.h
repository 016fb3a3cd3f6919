// How fast a card is, from its shape and from what was measured on one. Host code of every build, as plans
// for cards are.
#pragma once

#include <string_view>

#include "backend/device.h"
#include "base/dtype.h"

namespace snug::cuda {

struct CardShape {
  int capability = 0;  // 90 for compute capability 9.0
  double multiprocessors = 0;
  double clock_hz = 0;         // the highest
  double memory_bytes_hz = 0;  // the memory's own bandwidth
  bool half_rate = false;      // see adds_at_half_rate
};

// Whether a card of this name, as its driver gives it, adds up products of 16-bit numbers in fp32 at half the
// rate of others with the same units, as GeForce cards do.
bool adds_at_half_rate(std::string_view name);

// Whether its matrix units multiply bf16.
bool has_bf16(const CardShape& shape);

// Whether products of 8 bits take a scale a row of both operands there: cuBLASLt has them for Hopper alone.
bool scales_rows(int capability);

// What its units could do at the highest clock, in floating-point operations a second.
double peak_flops(const CardShape& shape, DType dtype, bool tf32);

// Measured on an H200. Other cards are assumed to reach the same shares of what their units could do.
DeviceRates rates_of(const CardShape& shape, DType dtype, bool tf32);

}  // namespace snug::cuda
