// Which card is meant, without any.
#include "backend/cuda_plan/cards.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace snug {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(Cards, AreNamedAsEveryoneNamesThem) {
  EXPECT_EQ(parse_card_choice("cuda")->number, 0);
  EXPECT_EQ(parse_card_choice("cuda:0")->number, 0);
  EXPECT_EQ(parse_card_choice("cuda:13")->number, 13);
  ASSERT_TRUE(parse_card_choice("cuda:auto").has_value());
  EXPECT_FALSE(parse_card_choice("cuda:auto")->number.has_value());
  for (const char* other : {"", "cpu", "cud", "cuda0", "cuda:", "cuda:-1", "cuda:1 ", "cuda:1x", "cuda:+1",
                            "cuda:99999999999", "CUDA", "cuda:Auto", "cudafreest"}) {
    EXPECT_FALSE(parse_card_choice(other).has_value()) << other;
  }
}

TEST(Cards, TheFreestIsTheOneWithTheMostFreeBytes) {
  const std::vector<Card> cards = {
      {0, "A", 3 * kGiB, 80 * kGiB}, {1, "B", 23 * kGiB, 24 * kGiB}, {2, "C", 23 * kGiB, 80 * kGiB}};
  EXPECT_EQ(pick_card({.number = std::nullopt}, cards), 1) << "not the largest; of equals the first";
  EXPECT_EQ(pick_card({}, cards), 0) << "the first, however full";
  EXPECT_EQ(pick_card({.number = 2}, cards), 2);
}

TEST(Cards, OneThatIsNotThereIsToldOfThoseThatAre) {
  const std::vector<Card> cards = {{0, "NVIDIA A", 3 * kGiB, 80 * kGiB},
                                   {1, "NVIDIA B", 23 * kGiB, 24 * kGiB}};
  try {
    pick_card({.number = 4}, cards);
    FAIL() << "there is no such card";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_STREQ(
        error.what(),
        "--device is \"cuda:4\", but the cards here are cuda:0 (NVIDIA A, 3.00 GiB of 80.00 GiB free), "
        "cuda:1 (NVIDIA B, 23.00 GiB of 24.00 GiB free)");
  }
}

}  // namespace
}  // namespace snug
