// In place of src/backend/cuda/instructions/numbers.cuh.
#pragma once

#include <cmath>
#include <limits>

namespace snug::cuda {

// Numbers too small to be normal are zero, before and after.
inline float flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0F, value) : value;
}

inline float power_of_two(float x) {
  return flushed(std::exp2(flushed(x)));
}

inline float logarithm_to_two(float x) {
  return std::log2(flushed(x));
}

}  // namespace snug::cuda
