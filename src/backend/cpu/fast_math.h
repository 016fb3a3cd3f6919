// exp, tanh and sigmoid without branches or tables, so that the compiler turns loops over them into SIMD.
#pragma once

#include <bit>
#include <cstdint>

namespace snug::cpu {

// e^x split as 2^n * (1 + r + r^2 * g(r)) with |r| <= ln 2 / 2.
struct ExpParts {
  float fraction = 0;  // e^r - 1
  int32_t exponent = 0;
};

// x must lie within [-2^21, 2^21].
inline ExpParts split_exp(float x) {
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves that integer in the low bits.
  constexpr float kRound = 12582912.0F;
  constexpr float kLog2E = 1.44269504F;
  // ln 2 in two pieces; the first has few enough bits that n * kLn2High is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  float shifted = x * kLog2E + kRound;
  float n = shifted - kRound;
  float r = (x - n * kLn2High) - n * kLn2Low;
  // Interpolates (e^r - 1 - r) / r^2 at Chebyshev nodes: relative error of e^r below 2^-26.
  float g = 1.392625083e-03F;
  g = g * r + 8.363232884e-03F;
  g = g * r + 4.166655421e-02F;
  g = g * r + 1.666657667e-01F;
  g = g * r + 0.5F;
  ExpParts parts;
  parts.fraction = r + r * r * g;
  parts.exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  return parts;
}

// 2^n for -126 <= n <= 127.
inline float power_of_two(int32_t n) {
  return std::bit_cast<float>((n + 127) << 23);
}

// Within 2 ulp over the whole range, subnormal results included; 0 for -inf, inf above 88.73, NaN for NaN.
inline float fast_exp(float x) {
  float clamped = x < -105.0F ? -105.0F : x;
  clamped = clamped > 90.0F ? 90.0F : clamped;
  ExpParts parts = split_exp(clamped);
  // Two factors, for exponents that one float cannot hold.
  int32_t half = parts.exponent >> 1;
  return (1.0F + parts.fraction) * power_of_two(half) * power_of_two(parts.exponent - half);
}

// By e^(2|x|) - 1, which stays exact to the last bits near zero.
inline float fast_tanh(float x) {
  float magnitude = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffffU);
  float doubled = magnitude > 20.0F ? 40.0F : 2.0F * magnitude;
  ExpParts parts = split_exp(doubled);
  float power = power_of_two(parts.exponent);
  float minus_one = parts.fraction * power + (power - 1.0F);
  float result = minus_one / (minus_one + 2.0F);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) | (std::bit_cast<uint32_t>(x) & 0x80000000U));
}

inline float fast_sigmoid(float x) {
  return 1.0F / (1.0F + fast_exp(-x));
}

}  // namespace snug::cpu
