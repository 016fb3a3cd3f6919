// Choosing a kernel's template by the dtypes of a call and by whether it writes = or +=.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/backend.h"
#include "base/check.h"
#include "base/dtype.h"

namespace snug::cpu {

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls body(TypeTag<T>) with the C++ type of an activation or weight.
template <typename Body>
void with_type(DType dtype, const Body& body) {
  if (dtype == DType::f32) {
    body(TypeTag<float>{});
    return;
  }
  SNUG_CHECK(dtype == DType::bf16, "a cpu kernel was given a dtype that find_unsupported refuses");
  body(TypeTag<bf16_t>{});
}

// Calls body(std::true_type) or body(std::false_type).
template <typename Body>
void with_flag(bool flag, const Body& body) {
  if (flag) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

// to_bf16 without its branch: the compiler vectorises this form.
inline bf16_t round_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  uint32_t quiet_nan = (bits >> 16) | 0x0040U;
  bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return bf16_t{static_cast<uint16_t>(is_nan ? quiet_nan : rounded)};
}

template <typename T>
T round_to(float value) {
  if constexpr (std::is_same_v<T, bf16_t>) {
    return round_to_bf16(value);
  } else {
    return value;
  }
}

// destination = value, or destination += value; the sum is made in fp32 and rounded once.
template <bool kAccumulate, typename T>
void store(T& destination, float value) {
  destination = round_to<T>(kAccumulate ? to_float(destination) + value : value);
}

// Rows a thread should at least get, so that starting it pays.
inline int64_t row_grain(int64_t columns) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
}
inline constexpr int64_t kElementGrain = 16384;

}  // namespace snug::cpu
