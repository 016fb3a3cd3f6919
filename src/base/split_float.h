// An fp32 number in two halves of 16 bits: the nearest bf16 number, to compute with, and the rest that makes
// it exact. One description for all backends; constexpr, so that device code can call it.
//
//   bits of the number = (bits of the bf16 number << 16) + rest, modulo 2^32
//
// Between two bf16 numbers both are as near, and the rest could be 32768 or -32768, of which 16 bits hold
// one: the bf16 number is then the one further from zero.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace snug {

struct SplitFloat {
  uint16_t bf16_bits = 0;
  int16_t rest = 0;

  bool operator==(const SplitFloat&) const = default;
};

// NaN stays NaN, a quiet one without a rest. Without a branch, so that compilers vectorise it.
constexpr SplitFloat split_float(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  uint32_t rounded = (bits + 0x8000U) >> 16;
  uint32_t quiet_nan = bits >> 16 | 0x0040U;
  return {.bf16_bits = static_cast<uint16_t>(is_nan ? quiet_nan : rounded),
          .rest = static_cast<int16_t>(is_nan ? 0U : bits)};
}

constexpr float join_float(const SplitFloat& halves) {
  uint32_t upper = static_cast<uint32_t>(halves.bf16_bits) << 16;
  return std::bit_cast<float>(upper + static_cast<uint32_t>(static_cast<int32_t>(halves.rest)));
}

// Of `count` numbers.
inline void join_floats(const bf16_t* upper, const int16_t* rests, float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = join_float({upper[i].bits, rests[i]});
  }
}

}  // namespace snug
