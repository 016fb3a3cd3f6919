// Fresh values: those that one generator gives one after the other, however many threads make them.
#include "train/initialize.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/threads.h"

namespace snug {
namespace {

TEST(Initializer, ValuesDependOnTheirPlaceAlone) {
  constexpr int64_t kElements = 50'001;
  constexpr int64_t kFirst = 12'345;
  Rng walked = tensor_rng(3, "model.norm.weight");
  std::vector<float> normal;
  std::vector<float> uniform;
  for (int64_t i = 0; i < kElements; ++i) {
    normal.push_back(0.02F * walked.normal());
  }
  walked = tensor_rng(3, "model.norm.weight");
  for (int64_t i = 0; i < kElements; ++i) {
    uniform.push_back(0.5F * (2.0F * walked.uniform() - 1.0F));
  }
  Rng tensor = tensor_rng(3, "model.norm.weight");
  for (int threads : {1, 2, 5}) {
    set_thread_count(threads);
    for (int64_t first : {int64_t{0}, kFirst}) {
      std::vector<float> values(static_cast<size_t>(kElements - first));
      Initializer{Initializer::Kind::normal, 0.02F}.fill(tensor, first, values);
      EXPECT_EQ(values, std::vector<float>(normal.begin() + first, normal.end())) << threads;
      Initializer{Initializer::Kind::uniform, 0.5F}.fill(tensor, first, values);
      EXPECT_EQ(values, std::vector<float>(uniform.begin() + first, uniform.end())) << threads;
    }
  }
  set_thread_count(0);
}

// Made by Philox and the quantile in Python, with fractions where fp32 rounds.
TEST(Initializer, BitsAreTheSameOnEveryMachine) {
  Rng tensor = tensor_rng(3, "lm_head.weight");
  auto bits_at = [&](int64_t place) {
    float value = 0;
    Initializer{Initializer::Kind::normal, 0.02F}.fill(tensor, place, {&value, 1});
    return std::bit_cast<uint32_t>(value);
  };
  EXPECT_EQ(bits_at(0), 0xbd1f1bd5U);
  EXPECT_EQ(bits_at(1), 0x3b787733U);
  EXPECT_EQ(bits_at(2), 0xbc72a63cU);
  EXPECT_EQ(bits_at(3), 0x3c28d374U);
  EXPECT_EQ(bits_at(12'345), 0xbbc45e59U);
  EXPECT_EQ(bits_at(5'000'000'000), 0xbc37161cU);
}

}  // namespace
}  // namespace snug
