// Floating-point numbers of 8 bits (OCP's E4M3 and E5M2), and the scales that rows of them share. One
// description for all backends; constexpr, so that device code can call it.
//
// A row is stored as value / scale, and its scale is the smallest power of two at which its largest magnitude
// is not above the largest number. A floating-point number is as precise at one power of two as at the next,
// so that nothing is lost by it; and scaling is exact, so that what a code stands for has few bits, in every
// dtype.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace snug {

enum class Float8 : uint8_t {
  e4m3,  // 4 bits of exponent and 3 of mantissa, up to 448: values
  e5m2,  // 5 and 2, up to 57,344: gradients, which need the range
};

constexpr int mantissa_bits(Float8 kind) {
  return kind == Float8::e4m3 ? 3 : 2;
}
constexpr int exponent_bias(Float8 kind) {
  return kind == Float8::e4m3 ? 7 : 15;
}
// Of the largest number, which is 1.75 times this power of two in both.
constexpr int largest_exponent(Float8 kind) {
  return kind == Float8::e4m3 ? 8 : 15;
}
constexpr uint8_t largest_code(Float8 kind) {
  return kind == Float8::e4m3 ? 0x7e : 0x7b;
}
inline constexpr uint8_t kFloat8NotANumber = 0x7f;

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// The nearest number, ties to even; what is too large becomes the largest, NaN stays NaN.
constexpr uint8_t float8_code(Float8 kind, float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint8_t>(bits >> 24 & 0x80U);
  bits &= 0x7fffffffU;
  if (bits > 0x7f800000U) {
    return sign | kFloat8NotANumber;
  }
  int lowest = 1 - exponent_bias(kind);  // the exponent of the smallest normal number
  if (bits < static_cast<uint32_t>(lowest + 127) << 23) {
    // Added to this number, a value is rounded to a multiple of the smallest number; how many is what is
    // added to the bits.
    float unit_in_last_place = power_of_two(lowest - mantissa_bits(kind) + 23);
    uint32_t sum = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + unit_in_last_place);
    return static_cast<uint8_t>(sign | (sum - std::bit_cast<uint32_t>(unit_in_last_place)));
  }
  int dropped = 23 - mantissa_bits(kind);
  bits += (1U << (dropped - 1)) - 1 + (bits >> dropped & 1U);
  uint32_t code =
      (bits >> dropped) - (static_cast<uint32_t>(127 - exponent_bias(kind)) << mantissa_bits(kind));
  return static_cast<uint8_t>(sign | (code > largest_code(kind) ? largest_code(kind) : code));
}

constexpr float float8_value(Float8 kind, uint8_t code) {
  uint32_t magnitude = code & 0x7fU;
  float sign = (code & 0x80U) != 0 ? -1.0F : 1.0F;
  if (magnitude > largest_code(kind)) {
    bool is_infinite = kind == Float8::e5m2 && magnitude == 0x7cU;
    float infinity = std::numeric_limits<float>::infinity();
    return !is_infinite ? std::numeric_limits<float>::quiet_NaN() : sign > 0 ? infinity : -infinity;
  }
  int bits = mantissa_bits(kind);
  auto exponent = static_cast<int>(magnitude >> bits);
  uint32_t mantissa = magnitude & ((1U << bits) - 1);
  int lowest = 1 - exponent_bias(kind);
  float whole = static_cast<float>(mantissa) + (exponent > 0 ? power_of_two(bits) : 0.0F);
  return sign * whole * power_of_two((exponent > 0 ? exponent - 1 : 0) + lowest - bits);
}

constexpr std::array<float, 256> float8_values(Float8 kind) {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = float8_value(kind, static_cast<uint8_t>(code));
  }
  return values;
}

inline constexpr std::array<float, 256> kE4m3Values = float8_values(Float8::e4m3);
inline constexpr std::array<float, 256> kE5m2Values = float8_values(Float8::e5m2);

// Rows of less than this times the largest number share this scale, whose inverse is a number too.
inline constexpr int kLowestScaleExponent = -100;

// Of a row with this largest magnitude, which is no NaN. A row with an infinity becomes NaN altogether.
constexpr float float8_scale(Float8 kind, float largest) {
  uint32_t bits = std::bit_cast<uint32_t>(largest);
  if (bits >= 0x7f800000U) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  // One more where the mantissa is above 1.75.
  int exponent = static_cast<int>((bits + 0x1fffffU) >> 23) - 127 - largest_exponent(kind);
  return power_of_two(exponent < kLowestScaleExponent ? kLowestScaleExponent : exponent);
}

}  // namespace snug
