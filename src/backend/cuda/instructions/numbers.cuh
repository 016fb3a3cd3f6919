// Functions of numbers by the units' own instructions. This folder has all instructions for which C++ has no
// word, as functions; tests that run kernels on the host have others in their place (tests/cuda_on_host).
#pragma once

namespace snug::cuda {

// 2^x to about two units in the last place; 0 for -inf.
__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Likewise the logarithm; of numbers too small to be normal it is that of zero.
__device__ inline float logarithm_to_two(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace snug::cuda
