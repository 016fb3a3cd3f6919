// How fast a card is, from its shape and from what was measured on one.
#pragma once

#include "backend/backend.h"

namespace snug::cuda {

struct CardShape {
  int capability = 0;  // 90 for compute capability 9.0
  double multiprocessors = 0;
  double clock_hz = 0;         // the highest
  double memory_bytes_hz = 0;  // the memory's own bandwidth
};

CardShape read_card_shape(int device);

// Measured on an H200. Other cards are assumed to reach the same shares of what their units could do.
DeviceRates rates_of(const CardShape& shape, DType dtype, bool tf32);

}  // namespace snug::cuda
