// How the values of a buffer lie in memory: element by element, or as small codes that share scales.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace snug {

enum class Coding : uint8_t {
  none,              // every element as it is
  nf4,               // 4 bits: one of 16 values, times the scale of a block
  fp4,               // the same with 16 other values
  int8,              // 8 bits: an integer in [-127, 127], times the scale of a row and 1/127
  fp8,               // 8 bits: a floating-point number (base/float8.h), times the scale of a row
  dynamic,           // 8 bits: one of 256 values in [-1, 1], times the scale of a block
  dynamic_unsigned,  // the same with values in [0, 1]
};

struct Format {
  DType dtype =
      DType::f32;  // of the elements; of a coding, what its values are rounded to when they are read
  Coding coding = Coding::none;
  int32_t block = 0;    // elements of one tensor that share a scale; 0: those of a row
  bool nested = false;  // the scales are codes themselves: 8 bits, in blocks of their own

  constexpr Format() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an element type is a format, the usual one
  constexpr Format(DType plain) : dtype(plain) {}
  constexpr Format(Coding how, int32_t block_elements, bool nested_scales = false)
      : coding(how), block(block_elements), nested(nested_scales) {}

  constexpr bool is_coded() const { return coding != Coding::none; }
  bool operator==(const Format&) const = default;
};

// Scales of one tensor that share a nested scale.
inline constexpr int64_t kNestedBlock = 256;

// What model.quantization makes of a weight.
inline constexpr Format kNf4 = {Coding::nf4, 64};
inline constexpr Format kNf4Double = {Coding::nf4, 64, true};
inline constexpr Format kFp4 = {Coding::fp4, 64};
inline constexpr Format kInt8 = {Coding::int8, 0};

// What model.compute: fp8 makes of a weight: what it is multiplied with is rounded to 8 bits as well.
inline constexpr Format kFp8 = {Coding::fp8, 0};

// What training.optimizer_states: 8bit makes of AdamW's moments. They share one map each, which stands apart.
inline constexpr Format kFirstMoment8bit = {Coding::dynamic, 256};
inline constexpr Format kSecondMoment8bit = {Coding::dynamic_unsigned, 256};

constexpr bool is_dynamic(Coding coding) {
  return coding == Coding::dynamic || coding == Coding::dynamic_unsigned;
}
// Smaller tensors of a dynamic coding are kept as fp32: they take little, and are often those that matter
// most.
inline constexpr int64_t kSmallestDynamicTensor = 4096;

constexpr int64_t code_bits(Coding coding) {
  return coding == Coding::nf4 || coding == Coding::fp4 ? 4 : 8;
}
// Values that the codes stand for, where they are looked up beside them.
constexpr int64_t map_entries(Coding coding) {
  return coding == Coding::nf4 || coding == Coding::fp4 ? 16 : 0;
}
inline constexpr int64_t kDynamicMapEntries = 256;
inline constexpr int64_t kNestedMapEntries = kDynamicMapEntries;

// "bf16", "nf4", "nf4_double", "int8", ...; another block than the usual one stands behind it.
std::string name_of(const Format& format);

}  // namespace snug
