// Codes of 4 and 8 bits: which value gets which code, and what a code stands for. One description for all
// backends, equal to the bit to what bitsandbytes makes on the CPU. A product that a sum follows is an fma
// with zero by name, which rounds it, so that no compiler fuses the two. The functions are constexpr so that
// device code can call them, and templates where std::fma and std::rint are not constexpr.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/dynamic_map.h"
#include "base/format.h"

namespace snug {

// ---- 4 bits: value = map[code] * scale, scale = the largest magnitude of a block ----

struct CodeLevels {
  std::array<float, 16> values;   // ascending
  std::array<uint8_t, 16> codes;  // of each value
  std::array<float, 15> bounds;   // halfway between neighbours: what is above bounds[i] is not values[i]
};

constexpr CodeLevels make_levels(const std::array<float, 16>& values, const std::array<uint8_t, 16>& codes) {
  CodeLevels levels{values, codes, {}};
  for (size_t i = 0; i < levels.bounds.size(); ++i) {
    levels.bounds[i] = (values[i] + values[i + 1]) / 2;
  }
  return levels;
}

// Quantiles of the normal distribution.
inline constexpr CodeLevels kNf4Levels =
    make_levels({-1.0F, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F,
                 -0.28444138169288635F, -0.18477343022823334F, -0.09105003625154495F, 0.0F,
                 0.07958029955625534F, 0.16093020141124725F, 0.24611230194568634F, 0.33791524171829224F,
                 0.44070982933044434F, 0.5626170039176941F, 0.7229568362236023F, 1.0F},
                {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});

// A sign, two bits of exponent and one of mantissa, over 12. Zero has two codes: what is a little above it
// gets the one with the sign.
inline constexpr CodeLevels kFp4Levels =
    make_levels({-12.0F / 12, -8.0F / 12, -6.0F / 12, -4.0F / 12, -3.0F / 12, -2.0F / 12, -0.0625F / 12, 0.0F,
                 0.0F, 0.0625F / 12, 2.0F / 12, 3.0F / 12, 4.0F / 12, 6.0F / 12, 8.0F / 12, 12.0F / 12},
                {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3});

constexpr const CodeLevels& levels_of(Coding coding) {
  return coding == Coding::fp4 ? kFp4Levels : kNf4Levels;
}

// The value of each code.
constexpr std::array<float, 16> map_of(const CodeLevels& levels) {
  std::array<float, 16> map{};
  for (size_t i = 0; i < map.size(); ++i) {
    map[levels.codes[i]] = levels.values[i];
  }
  return map;
}

// Blocks of zeros, or of less than this, are divided by it.
inline constexpr float kSmallestScale = 1e-38F;

// What values of a whole block are multiplied with. Those of a tensor's last, shorter block are divided
// instead, and its scale is never less than kSmallestScale.
constexpr float scale_factor(float largest) {
  return 1.0F / (largest < kSmallestScale ? kSmallestScale : largest);
}

constexpr uint8_t code_of(const CodeLevels& levels, float scaled) {
  size_t level = 0;
  for (float bound : levels.bounds) {
    level += scaled > bound ? 1 : 0;
  }
  return levels.codes[level];
}

// ---- scales as codes: scale = map[code] * nested scale + offset, offset = the mean of a tensor's scales
// ----

template <typename Real>
constexpr Real nested_value(Real level, Real nested_scale, Real offset) {
  return std::fma(level, nested_scale, Real{0}) + offset;
}

using NestedMap = DynamicMap;

// The code of (scale - offset) / nested scale, by way of 65,536 steps from -1 to 1.
uint8_t nested_code(const NestedMap& map, float scaled);

// ---- 8 bits: value = code * scale / 127, scale = the largest magnitude of a row ----

template <typename Real>
constexpr int8_t int8_code(Real value, Real largest) {
  return largest > 0 ? static_cast<int8_t>(std::rint(value * (1.0F / largest * 127.0F))) : int8_t{0};
}

constexpr float int8_value(int8_t code, float scale) {
  return static_cast<float>(code) * scale * 7.874015718698502e-3F;
}

}  // namespace snug
