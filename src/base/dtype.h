// Element types of buffers and files, and the conversions between them.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace snug {

enum class DType : uint8_t { f32, bf16, f16, f64, i16, i32, i64, u8 };

constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::i16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

// What so many elements take. All sizes of buffers and tensors come from here.
constexpr int64_t bytes_of(DType dtype, int64_t elements) {
  return elements * size_of(dtype);
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64;
}

// The name that recipes, plans and messages use: "fp32", "bf16", "fp16", "fp64", "int32", ...
std::string_view name_of(DType dtype);

// Accepts our names and Hugging Face's ("float32", "bfloat16", "float16"); nothing for anything else.
std::optional<DType> parse_dtype(std::string_view name);

// Distinct types, so that a kernel cannot mistake the bits of one format for another.
struct bf16_t {
  uint16_t bits;
};
struct f16_t {
  uint16_t bits;
};

constexpr float to_float(float value) {
  return value;
}
constexpr float to_float(bf16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
float to_float(f16_t value);

// Rounds to nearest, ties to even; NaN stays NaN.
constexpr bf16_t to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return bf16_t{static_cast<uint16_t>((bits >> 16) | 0x0040U)};
  }
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return bf16_t{static_cast<uint16_t>(bits >> 16)};
}
f16_t to_f16(float value);

template <typename T>
constexpr T from_float(float value);
template <>
constexpr float from_float<float>(float value) {
  return value;
}
template <>
constexpr bf16_t from_float<bf16_t>(float value) {
  return to_bf16(value);
}
template <>
inline f16_t from_float<f16_t>(float value) {
  return to_f16(value);
}

// Converts `count` floating elements from one format to another; the ranges may not overlap.
void convert(DType from, const void* source, DType to, void* destination, int64_t count);

}  // namespace snug
