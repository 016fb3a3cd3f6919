// Names of element types and conversion between the floating ones.
#include "base/dtype.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace snug {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 19> kNames = {{
    {"fp32", DType::f32},          {"bf16", DType::bf16},         {"fp16", DType::f16},
    {"fp64", DType::f64},          {"int16", DType::i16},         {"int32", DType::i32},
    {"int64", DType::i64},         {"uint8", DType::u8},          {"float32", DType::f32},
    {"bfloat16", DType::bf16},     {"float16", DType::f16},       {"float64", DType::f64},
    {"f32", DType::f32},           {"f16", DType::f16},           {"float", DType::f32},
    {"half", DType::f16},          {"torch.float32", DType::f32}, {"torch.bfloat16", DType::bf16},
    {"torch.float16", DType::f16},
}};

// fp64 narrows: nothing here computes in fp64.
float narrowed(double value) {
  return static_cast<float>(value);
}
template <typename Value>
float narrowed(Value value) {
  return to_float(value);
}

// Data of files need not be aligned, so elements are copied out and in.
template <typename From, typename To>
void convert_elements(const void* source, void* destination, int64_t count) {
  const char* read = static_cast<const char*>(source);
  char* written = static_cast<char*>(destination);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, read + i * static_cast<int64_t>(sizeof value), sizeof value);
    To result = from_float<To>(narrowed(value));
    std::memcpy(written + i * static_cast<int64_t>(sizeof result), &result, sizeof result);
  }
}

template <typename From>
void convert_from(const void* source, DType to, void* destination, int64_t count) {
  switch (to) {
    case DType::f32:
      return convert_elements<From, float>(source, destination, count);
    case DType::bf16:
      return convert_elements<From, bf16_t>(source, destination, count);
    case DType::f16:
      return convert_elements<From, f16_t>(source, destination, count);
    default:
      SNUG_CHECK(false, "conversion to a type that nothing stores");
  }
}

}  // namespace

std::string_view name_of(DType dtype) {
  for (const auto& [name, value] : kNames) {
    if (value == dtype) {
      return name;
    }
  }
  return "unknown";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const auto& [known, value] : kNames) {
    if (known == name) {
      return value;
    }
  }
  return std::nullopt;
}

float to_float(f16_t value) {
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
  uint32_t exponent = (value.bits >> 10) & 0x1fU;
  uint32_t mantissa = value.bits & 0x3ffU;
  if (exponent == 0x1f) {
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  }
  if (exponent == 0) {
    // Zero or subnormal: mantissa × 2^-24 is exact in fp32.
    float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

f16_t to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return f16_t{static_cast<uint16_t>(sign | 0x7e00U)};
  }
  if (magnitude >= 0x477ff000U) {  // rounds past 65504: infinity
    return f16_t{static_cast<uint16_t>(sign | 0x7c00U)};
  }
  if (magnitude < 0x38800000U) {  // subnormal in fp16: adding 0.5 leaves the rounded mantissa below
    float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return f16_t{static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U))};
  }
  magnitude += 0xfffU + ((magnitude >> 13) & 1U);
  return f16_t{static_cast<uint16_t>(sign | ((magnitude - 0x38000000U) >> 13))};
}

void convert(DType from, const void* source, DType to, void* destination, int64_t count) {
  if (from == to) {
    std::memcpy(destination, source, static_cast<size_t>(count * size_of(from)));
    return;
  }
  switch (from) {
    case DType::f32:
      return convert_from<float>(source, to, destination, count);
    case DType::bf16:
      return convert_from<bf16_t>(source, to, destination, count);
    case DType::f16:
      return convert_from<f16_t>(source, to, destination, count);
    case DType::f64:
      return convert_from<double>(source, to, destination, count);
    default:
      SNUG_CHECK(false, "conversion from an integer type");
  }
}

}  // namespace snug
