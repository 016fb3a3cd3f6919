// The rows of the loss head: which tokens, and how many numbers of rows there are.
#include "data/batches/target_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/tokens/example.h"

namespace snug {
namespace {

TEST(TargetRows, FewNumbersAndNeverTooFewRows) {
  constexpr int64_t kTokens = 16384;
  std::set<int64_t> numbers;
  for (int64_t targets = 0; targets <= kTokens; ++targets) {
    int64_t rows = target_row_count(targets, kTokens);
    ASSERT_GE(rows, std::max<int64_t>(targets, 1));
    ASSERT_LE(rows, kTokens);
    if (rows < kTokens) {
      ASSERT_EQ(rows % 64, 0);
      ASSERT_LT(rows - targets, std::max<int64_t>(65, targets / 16 + 1));
    } else {
      ASSERT_GT(targets, kTokens * 7 / 8);
    }
    numbers.insert(rows);
  }
  EXPECT_LE(numbers.size(), 80);
}

TEST(TargetRows, AllTokensWhereFewWouldBeLeftOut) {
  EXPECT_EQ(target_row_count(0, 1), 1);
  EXPECT_EQ(target_row_count(3, 68), 68);  // 64 of 68
  EXPECT_EQ(target_row_count(3, 69), 64);
  EXPECT_EQ(target_row_count(1000, 1024), 1024);
  EXPECT_EQ(target_row_count(896, 1024), 896);
  EXPECT_EQ(target_row_count(897, 1024), 1024);
}

TEST(TargetRows, TokensInTheirOrderAndThenNone) {
  std::vector<int32_t> targets(200, kNoTarget);
  targets[3] = 7;
  targets[150] = 0;
  targets[199] = 9;
  TargetRows rows = make_target_rows(targets);
  ASSERT_EQ(rows.size(), 64);
  ASSERT_EQ(rows.targets.size(), 64U);
  EXPECT_EQ(std::vector(rows.tokens.begin(), rows.tokens.begin() + 4),
            (std::vector<int32_t>{3, 150, 199, kNoToken}));
  EXPECT_EQ(std::vector(rows.targets.begin(), rows.targets.begin() + 4),
            (std::vector<int32_t>{7, 0, 9, kNoTarget}));
  EXPECT_EQ(rows.tokens.back(), kNoToken);
  EXPECT_EQ(rows.targets.back(), kNoTarget);
}

TEST(TargetRows, WithAllTokensRowIIsTokenI) {
  std::vector<int32_t> targets = {kNoTarget, 4, 5, kNoTarget};
  TargetRows rows = make_target_rows(targets);
  EXPECT_EQ(rows.tokens, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(rows.targets, targets);
}

TEST(TargetRows, NoTargetAtAll) {
  TargetRows rows = make_target_rows(std::vector<int32_t>(500, kNoTarget));
  EXPECT_EQ(rows.tokens, std::vector<int32_t>(64, kNoToken));
  EXPECT_EQ(rows.targets, std::vector<int32_t>(64, kNoTarget));
}

}  // namespace
}  // namespace snug
