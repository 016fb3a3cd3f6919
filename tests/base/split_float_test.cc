// Every fp32 number is the sum of its halves, and the upper half is the nearest bf16 number.
#include "base/split_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"

namespace snug {
namespace {

constexpr float of_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

bool is_nan_bits(uint32_t bits) {
  return (bits & 0x7fffffffU) > 0x7f800000U;
}

// By counting: the bf16 numbers around it, as integers of sign and magnitude.
uint32_t nearest_away_from_zero(uint32_t bits) {
  uint32_t below = bits >> 16;
  uint32_t from_below = bits - (below << 16);
  uint32_t to_above = 65536 - from_below;
  return from_below < to_above ? below : below + 1;
}

void expect_split(uint32_t bits) {
  SplitFloat halves = split_float(of_bits(bits));
  if (is_nan_bits(bits)) {
    EXPECT_TRUE(is_nan_bits(static_cast<uint32_t>(halves.bf16_bits) << 16)) << std::hex << bits;
    EXPECT_NE(halves.bf16_bits & 0x0040, 0) << std::hex << bits;
    EXPECT_EQ(halves.rest, 0) << std::hex << bits;
    EXPECT_TRUE(std::isnan(join_float(halves))) << std::hex << bits;
    return;
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(join_float(halves)), bits) << std::hex << bits;
  EXPECT_EQ(halves.bf16_bits, nearest_away_from_zero(bits)) << std::hex << bits;
}

// Zeros, subnormal numbers, the largest ones, infinities and NaN are among them, with both signs.
TEST(SplitFloat, IsExactForEveryUpperHalf) {
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (uint32_t lower :
         {0U, 1U, 2U, 0x1234U, 0x7ffeU, 0x7fffU, 0x8000U, 0x8001U, 0x8002U, 0xabcdU, 0xfffeU, 0xffffU}) {
      expect_split(upper << 16 | lower);
    }
  }
}

TEST(SplitFloat, IsExactForEveryLowerHalf) {
  for (uint32_t upper :
       {0x0000U, 0x0001U, 0x007fU, 0x0080U, 0x3f80U, 0x3fffU, 0x7f7fU, 0x8000U, 0xbf80U, 0xff7fU}) {
    for (uint32_t lower = 0; lower < 65536; ++lower) {
      expect_split(upper << 16 | lower);
    }
  }
}

// All but the numbers in the middle between two are rounded as everywhere else.
TEST(SplitFloat, RoundsAsToBf16ButInTheMiddle) {
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (uint32_t lower : {0U, 1U, 0x7fffU, 0x8001U, 0xffffU}) {
      uint32_t bits = upper << 16 | lower;
      EXPECT_EQ(split_float(of_bits(bits)).bf16_bits, to_bf16(of_bits(bits)).bits) << std::hex << bits;
    }
  }
  EXPECT_EQ(split_float(of_bits(0x3f808000U)).bf16_bits, 0x3f81);
  EXPECT_EQ(to_bf16(of_bits(0x3f808000U)).bits, 0x3f80);
}

TEST(SplitFloat, KnowsSpecialNumbers) {
  using Limits = std::numeric_limits<float>;
  EXPECT_EQ(split_float(0.0F), (SplitFloat{0x0000, 0}));
  EXPECT_EQ(split_float(-0.0F), (SplitFloat{0x8000, 0}));
  EXPECT_EQ(split_float(Limits::infinity()), (SplitFloat{0x7f80, 0}));
  EXPECT_EQ(split_float(-Limits::infinity()), (SplitFloat{0xff80, 0}));
  EXPECT_EQ(split_float(Limits::max()), (SplitFloat{0x7f80, -1}));  // what is computed with is infinite
  EXPECT_EQ(split_float(-Limits::max()), (SplitFloat{0xff80, -1}));
  EXPECT_EQ(join_float({0x7f80, -1}), Limits::max());
  EXPECT_EQ(split_float(Limits::denorm_min()), (SplitFloat{0, 1}));
  // The NaN that a card's arithmetic makes would be -0 without care.
  EXPECT_EQ(split_float(of_bits(0x7fffffffU)), (SplitFloat{0x7fff, 0}));
  EXPECT_EQ(split_float(of_bits(0x7f800001U)), (SplitFloat{0x7fc0, 0}));
}

static_assert(join_float(split_float(3.14159274F)) == 3.14159274F);

}  // namespace
}  // namespace snug
