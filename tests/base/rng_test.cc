// Random numbers: the published known answers of Philox4x32-10, and the distributions over it.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace snug {
namespace {

using Words = std::array<uint32_t, 4>;

// Known-answer vectors of Random123 for philox4x32-10. Counter words 0 and 1 are our counter, 2 and 3
// our stream.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX, UINT64_MAX, UINT64_MAX),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, WalksTheWordsOfOneStream) {
  Rng rng(0);
  EXPECT_EQ(rng.next_u32(), 0x6627e8d5U);
  EXPECT_EQ(rng.next_u32(), 0xe169c58dU);
  EXPECT_EQ(rng.next_u64(), 0xbc57ac4c9b00dbd8U);
  Words second = philox(0, 0, 1);
  EXPECT_EQ(rng.next_u32(), second[0]);
  EXPECT_NE(Rng(0, 1).next_u32(), Rng(0, 0).next_u32());
  EXPECT_NE(Rng(1).next_u32(), Rng(0).next_u32());
}

TEST(Rng, GoesOnAtAnyWord) {
  for (uint64_t word : {0, 1, 3, 4, 5, 1000, 1003}) {
    Rng walked(9, 4);
    for (uint64_t i = 0; i < word; ++i) {
      walked.next_u32();
    }
    Rng sought(9, 4);
    sought.next_u32();
    sought.seek(word);
    for (int i = 0; i < 9; ++i) {
      ASSERT_EQ(sought.next_u32(), walked.next_u32()) << word << " and " << i << " more";
    }
  }
}

TEST(Rng, UniformFillsTheUnitInterval) {
  EXPECT_EQ(unit_float(0), 0.0F);
  EXPECT_LT(unit_float(UINT32_MAX), 1.0F);
  Rng rng(3);
  constexpr int kDraws = 100000;
  std::array<int, 10> bins{};
  for (int i = 0; i < kDraws; ++i) {
    ++bins.at(static_cast<size_t>(rng.uniform() * 10.0F));
  }
  for (int count : bins) {
    EXPECT_NEAR(count, kDraws * 0.1, 500);  // more than five standard deviations
  }
}

TEST(Rng, NormalHasItsMoments) {
  Rng rng(4);
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    double value = rng.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.0125);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.017);
  EXPECT_NEAR(fourth / kDraws, 3.0, 0.12);
}

TEST(Rng, BelowIsUnbiasedAndInRange) {
  Rng rng(5);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) {
    ++counts.at(rng.below(7));
  }
  for (int count : counts) {
    EXPECT_NEAR(count, 10000, 500);
  }
  EXPECT_EQ(rng.below(1), 0U);
  // Two thirds of 2^64: taking the remainder of one word would make the lower half twice as likely.
  uint64_t bound = 0xAAAAAAAAAAAAAAAAU;
  int low = 0;
  for (int i = 0; i < 10000; ++i) {
    uint64_t value = rng.below(bound);
    ASSERT_LT(value, bound);
    low += value < bound / 2 ? 1 : 0;
  }
  EXPECT_NEAR(low, 5000, 250);
}

}  // namespace
}  // namespace snug
