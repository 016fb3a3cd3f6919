// Random numbers: the published known answers of Philox4x32, and the distributions over it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/rng.h"

namespace snug {
namespace {

using Words = std::array<uint32_t, 4>;

// Known-answer vectors of Random123 for philox4x32, of 10 and of 7 rounds. Counter words 0 and 1 are our
// counter, 2 and 3 our stream.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX, UINT64_MAX, UINT64_MAX),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(philox<7>(0, 0, 0), (Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox<7>(UINT64_MAX, UINT64_MAX, UINT64_MAX),
            (Words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  EXPECT_EQ(philox<7>(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
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

// The share of normal numbers above x.
double share_above(double x) {
  return 0.5 * std::erfc(x / std::numbers::sqrt2);
}

// Words at every scale: the first ones, which lie farthest out, and on in steps of 1/64.
std::vector<uint32_t> words_of_one_sign() {
  std::vector<uint32_t> words;
  for (uint64_t word = 0; word < 0x80000000U; word += word / 64 + 1) {
    words.push_back(static_cast<uint32_t>(word));
  }
  words.push_back(0x7fffffffU);
  return words;
}

// Word by word against the distribution function; the sides are mirrored, and further in is never further
// out.
TEST(NormalFloat, HasTheShareAboveItThatItsWordSays) {
  double last = INFINITY;
  for (uint32_t word : words_of_one_sign()) {
    double x = normal_float(word);
    double p = (word + 0.5) * 0x1p-32;
    double height = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    // p is rounded to fp32, the beginning of a piece and the result too.
    ASSERT_NEAR((share_above(x) - p) / height, 0.0, 0x1p-22 * std::max(1.0, x)) << word;
    ASSERT_LE(x, last) << word;
    ASSERT_GE(x, 0.0) << word;
    ASSERT_EQ(std::bit_cast<uint32_t>(normal_float(word | 0x80000000U)),
              std::bit_cast<uint32_t>(normal_float(word)) | 0x80000000U);
    last = x;
  }
}

// From the same formulas in Python: its doubles, and fractions where fp32 rounds.
TEST(NormalFloat, BitsAreTheSameOnEveryMachine) {
  auto bits_of = [](uint32_t word) { return std::bit_cast<uint32_t>(normal_float(word)); };
  EXPECT_EQ(bits_of(0), 0x40cad08dU);
  EXPECT_EQ(bits_of(1), 0x40c55364U);
  EXPECT_EQ(bits_of(0x12345678), 0x3fbbd931U);
  EXPECT_EQ(bits_of(0x40000000), 0x3f2cab5cU);
  EXPECT_EQ(bits_of(0x7fffffff), 0x00000000U);
  EXPECT_EQ(bits_of(0x80000000), 0xc0cad08dU);
  EXPECT_EQ(bits_of(0xbc57ac4c), 0xbf385c81U);
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (uint32_t word : words_of_one_sign()) {
    hash = (hash ^ bits_of(word)) * 0x100000001b3ULL;
  }
  EXPECT_EQ(hash, 0xad4e8ec1295984fdU);
}

TEST(Rng, NormalTakesAWord) {
  Rng words(4);
  Rng numbers(4);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(numbers.normal(), normal_float(words.next_u32()));
  }
}

constexpr int64_t kNormalDraws = int64_t{1} << 22;

std::vector<float> normal_draws() {
  std::vector<float> values(kNormalDraws);
  Rng(4).fill_normal(values);
  return values;
}

// Five standard deviations of each mean: those of x, x^2, x^3 and x^4 are the roots of 1, 2, 15 and 96.
TEST(Rng, NormalHasItsMoments) {
  std::array<double, 4> sums{};
  for (double value : normal_draws()) {
    double power = 1;
    for (double& sum : sums) {
      power *= value;
      sum += power;
    }
  }
  double draws = kNormalDraws;
  EXPECT_NEAR(sums[0] / draws, 0.0, 5 * std::sqrt(1 / draws));
  EXPECT_NEAR(sums[1] / draws, 1.0, 5 * std::sqrt(2 / draws));
  EXPECT_NEAR(sums[2] / draws, 0.0, 5 * std::sqrt(15 / draws));
  EXPECT_NEAR(sums[3] / draws, 3.0, 5 * std::sqrt(96 / draws));
}

// Chi-square over bins of 1/50 between -4 and 4, the first and the last open; beyond them Poisson's law.
TEST(Rng, NormalFillsItsDistribution) {
  constexpr int kBinsOfOne = 50;
  constexpr int kBins = 8 * kBinsOfOne;
  std::vector<int64_t> counts(kBins);
  std::array<int64_t, 2> beyond_four{};
  int64_t beyond_five = 0;
  for (double value : normal_draws()) {
    int bin = static_cast<int>(std::floor((value + 4) * kBinsOfOne));
    ++counts[static_cast<size_t>(std::clamp(bin, 0, kBins - 1))];
    beyond_four[0] += value < -4 ? 1 : 0;
    beyond_four[1] += value > 4 ? 1 : 0;
    beyond_five += std::abs(value) > 5 ? 1 : 0;
  }
  double draws = kNormalDraws;
  double chi_square = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    double above_begin = bin == 0 ? 1.0 : share_above(-4 + static_cast<double>(bin) / kBinsOfOne);
    double above_end = bin == kBins - 1 ? 0.0 : share_above(-4 + static_cast<double>(bin + 1) / kBinsOfOne);
    double expected = draws * (above_begin - above_end);
    double excess = static_cast<double>(counts[static_cast<size_t>(bin)]) - expected;
    chi_square += excess * excess / expected;
  }
  double freedom = kBins - 1;
  EXPECT_NEAR(chi_square, freedom, 5 * std::sqrt(2 * freedom));
  for (int64_t count : beyond_four) {  // 133 each
    double expected = draws * share_above(4);
    EXPECT_NEAR(static_cast<double>(count), expected, 5 * std::sqrt(expected));
  }
  EXPECT_GE(beyond_five, 1);  // 2.4 are expected
  EXPECT_LE(beyond_five, 12);
}

// Whatever part of a counter's four words they begin and end with, and beyond what is made at once.
TEST(Rng, FilledNumbersAreThoseOfSingleCalls) {
  for (uint64_t first : {0, 1, 2, 3, 4, 1001}) {
    for (size_t count : {0, 1, 3, 4, 5, 255, 256, 257, 1027}) {
      Rng single(9, 4);
      single.seek(first);
      Rng filled = single;
      std::vector<float> values(count);
      filled.fill_normal(values);
      for (float value : values) {
        ASSERT_EQ(value, single.normal()) << first << " " << count;
      }
      ASSERT_EQ(filled.next_u32(), single.next_u32()) << first << " " << count;
      filled.fill_uniform(values);
      for (float value : values) {
        ASSERT_EQ(value, single.uniform()) << first << " " << count;
      }
      ASSERT_EQ(filled.next_u32(), single.next_u32()) << first << " " << count;
    }
  }
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
