#pragma once

namespace snug::cuda {

// 2^x to about two units in the last place, by the units' own instruction; 0 for -inf.
__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace snug::cuda
