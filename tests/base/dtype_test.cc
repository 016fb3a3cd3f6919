// Conversions between element types, against plain double arithmetic.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"

namespace snug {
namespace {

// `value` rounded to `mantissa_bits` (the hidden one not counted) by double arithmetic, ties to even as
// nearbyint does; `min_exponent` is that of the smallest normal number, `max_value` the largest finite one.
double rounded(double value, int mantissa_bits, int min_exponent, double max_value) {
  if (value == 0 || !std::isfinite(value)) {
    return value;
  }
  int exponent = std::max(std::ilogb(value), min_exponent);
  double quantum = std::ldexp(1.0, exponent - mantissa_bits);
  double result = std::nearbyint(value / quantum) * quantum;
  return std::abs(result) > max_value ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                      : result;
}

double bf16_reference(double value) {
  return rounded(value, 7, -126, std::ldexp(255.0, 120));
}
double f16_reference(double value) {
  return rounded(value, 10, -14, 65504.0);
}

// Every exponent with mantissas at, just below and just above the ties, and many at random.
std::vector<float> interesting_floats() {
  std::vector<float> values;
  std::mt19937 random(7);
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (uint32_t mantissa : {0U,       1U,       0x7fffffU, 0x400000U, 0x8000U,   0x7fffU,  0x8001U,
                              0x18000U, 0x17fffU, 0x18001U,  0x1000U,   0xfffU,    0x1001U,  0x3000U,
                              0x2fffU,  0x3001U,  0x7ff000U, 0x7f8000U, 0x7fefffU, 0x7f7fffU}) {
      values.push_back(std::bit_cast<float>((exponent << 23) | mantissa));
      values.push_back(-values.back());
    }
  }
  for (int i = 0; i < 200000; ++i) {
    auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  return values;
}

TEST(DType, EveryHalfPatternMeansWhatTheFormatSays) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    float value = to_float(f16_t{static_cast<uint16_t>(pattern)});
    uint32_t exponent = (pattern >> 10) & 31U;
    uint32_t mantissa = pattern & 1023U;
    bool negative = pattern >= 0x8000U;
    ASSERT_EQ(std::signbit(value), negative) << pattern;
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(value), mantissa != 0) << pattern;
      ASSERT_EQ(std::isinf(value), mantissa == 0) << pattern;
    } else {
      double magnitude = exponent == 0 ? std::ldexp(mantissa, -24)
                                       : std::ldexp(1024.0 + mantissa, static_cast<int>(exponent) - 25);
      ASSERT_EQ(static_cast<double>(value), negative ? -magnitude : magnitude) << pattern;
    }
  }
}

TEST(DType, EveryHalfPatternSurvivesTheRoundTrip) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    float value = to_float(f16_t{static_cast<uint16_t>(pattern)});
    uint16_t back = to_f16(value).bits;
    if (std::isnan(value)) {
      ASSERT_EQ(back & 0x7c00U, 0x7c00U) << pattern;
      ASSERT_NE(back & 0x03ffU, 0U) << pattern;
      ASSERT_EQ(back & 0x8000U, pattern & 0x8000U) << pattern;
    } else {
      ASSERT_EQ(back, pattern);
    }
  }
}

TEST(DType, EveryBf16PatternSurvivesTheRoundTrip) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    float value = to_float(bf16_t{static_cast<uint16_t>(pattern)});
    uint16_t back = to_bf16(value).bits;
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(bf16_t{back}))) << pattern;
    } else {
      ASSERT_EQ(back, pattern);
    }
  }
}

TEST(DType, RoundingAgreesWithDoubleArithmetic) {
  for (float value : interesting_floats()) {
    ASSERT_EQ(static_cast<double>(to_float(to_bf16(value))), bf16_reference(value)) << value;
    ASSERT_EQ(static_cast<double>(to_float(to_f16(value))), f16_reference(value)) << value;
    ASSERT_EQ(std::signbit(to_float(to_f16(value))), std::signbit(value)) << value;
  }
}

TEST(DType, NanStaysNan) {
  // The only set bit lies below what bf16 and fp16 keep.
  auto quiet_loss = std::bit_cast<float>(0x7f800001U);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(quiet_loss))));
  EXPECT_TRUE(std::isnan(to_float(to_f16(quiet_loss))));
}

// `values` stored as T, converted to fp32 by convert().
template <typename T>
std::vector<float> through_convert(DType from, const std::vector<T>& values) {
  // One byte in front: file data need not be aligned.
  std::vector<char> bytes(values.size() * sizeof(T) + 1);
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
  std::vector<float> out(values.size());
  convert(from, bytes.data() + 1, DType::f32, out.data(), static_cast<int64_t>(values.size()));
  return out;
}

TEST(DType, ConvertReadsEveryFloatingFormat) {
  std::vector<float> expected = {1.0F, -2.5F, 0.0F, 1024.0F};
  EXPECT_EQ(through_convert<float>(DType::f32, expected), expected);
  EXPECT_EQ(through_convert<double>(DType::f64, {1.0, -2.5, 0.0, 1024.0}), expected);
  EXPECT_EQ(through_convert<uint16_t>(DType::bf16, {0x3f80, 0xc020, 0x0000, 0x4480}), expected);
  EXPECT_EQ(through_convert<uint16_t>(DType::f16, {0x3c00, 0xc100, 0x0000, 0x6400}), expected);
}

TEST(DType, ConvertWritesNarrowFormats) {
  std::vector<float> values = {1.0F, -2.5F, 1.00390625F};  // the last is a tie in bf16: to even, 1.0
  std::vector<uint16_t> out(3);
  convert(DType::f32, values.data(), DType::bf16, out.data(), 3);
  EXPECT_EQ(out, (std::vector<uint16_t>{0x3f80, 0xc020, 0x3f80}));
  convert(DType::f32, values.data(), DType::f16, out.data(), 3);
  EXPECT_EQ(out, (std::vector<uint16_t>{0x3c00, 0xc100, 0x3c04}));
}

TEST(DType, NamesGoBothWays) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bf16);
  EXPECT_EQ(parse_dtype("torch.float16"), DType::f16);
  EXPECT_EQ(parse_dtype("int4"), std::nullopt);
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_FALSE(is_floating(DType::u8));
  EXPECT_TRUE(is_floating(DType::f64));
}

}  // namespace
}  // namespace snug
