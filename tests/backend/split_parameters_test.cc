// Updates of parameters that are the upper halves of fp32 numbers, with their rests: those numbers are what
// fp32 parameters become, to the bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/threads.h"
#include "support/adafactor_update.h"
#include "support/bf16_update.h"
#include "support/rounded_gradients.h"
#include "support/run_ops.h"
#include "support/split_values.h"

namespace snug {
namespace {

const std::vector<int64_t> kSizes = {1, 40003, 257, 8};

std::string numbered(const char* stem, size_t i) {
  return stem + std::to_string(i);
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isnan(wanted[i])) {
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i])) << i;
    } else {
      ASSERT_TRUE(std::isnan(got[i])) << i;
    }
  }
}

// No bf16 number is nearer to the value than the upper half.
void expect_nearest(const std::vector<float>& upper, const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    double value = static_cast<double>(values[i]);
    auto bits = std::bit_cast<uint32_t>(upper[i]);
    ASSERT_EQ(bits & 0xffffU, 0U);
    double distance = std::abs(static_cast<double>(upper[i]) - value);
    for (uint32_t other : {bits - 0x10000U, bits + 0x10000U}) {
      ASSERT_LE(distance, std::abs(static_cast<double>(std::bit_cast<float>(other)) - value)) << i;
    }
  }
}

TEST(SplitParameters, AdamwMovesThemAsFp32Ones) {
  for (bool rounded_gradients : {false, true}) {
    Program split_program = bf16_update_program(kSizes, DType::bf16, DType::i16, DType::f32);
    Program whole_program = bf16_update_program(kSizes, DType::f32, DType::f32, DType::f32);
    OpRunner split(rounded_gradients ? with_rounded_gradients(split_program) : split_program);
    OpRunner whole(rounded_gradients ? with_rounded_gradients(whole_program) : whole_program);
    fill_bf16_update(split, kSizes);
    fill_bf16_update(whole, kSizes);
    for (size_t i = 0; i < kSizes.size(); ++i) {
      set_split(split, numbered("p", i), numbered("c", i), whole.get(numbered("p", i)));
    }
    for (uint64_t step = 0; step < 8; ++step) {
      for (size_t i = 0; i < kSizes.size(); ++i) {
        for (OpRunner* runner : {&split, &whole}) {
          runner->set(numbered("g", i), random_values(kSizes[i], 100 * step + i));
          runner->set("scalars", {1e-3F, 0.5F, 0.25F, 1.0F});
        }
      }
      split.run();
      whole.run();
    }
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::vector<float> values = get_joined(split, numbered("p", i), numbered("c", i));
      expect_same_bits(values, whole.get(numbered("p", i)));
      expect_nearest(split.get(numbered("p", i)), values);
      EXPECT_EQ(split.get(numbered("m", i)), whole.get(numbered("m", i)));
      EXPECT_EQ(split.get(numbered("v", i)), whole.get(numbered("v", i)));
    }
  }
}

TEST(SplitParameters, AdamwKeepsWhatIsNoOrdinaryNumber) {
  OpRunner split(bf16_update_program(kSizes, DType::bf16, DType::i16, DType::f32));
  OpRunner whole(bf16_update_program(kSizes, DType::f32, DType::f32, DType::f32));
  fill_bf16_update(split, kSizes);
  fill_bf16_update(whole, kSizes);
  std::vector<float> start = with_the_largest(random_values(kSizes[1], 3));
  start[7] = std::numeric_limits<float>::quiet_NaN();
  start[8] = std::bit_cast<float>(0x7fffffffU);
  start[9] = std::numeric_limits<float>::max();
  start[10] = 1e-42F;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    set_split(split, numbered("p", i), numbered("c", i), whole.get(numbered("p", i)));
  }
  set_split(split, "p1", "c1", start);
  whole.set("p1", start);
  split.run();
  whole.run();
  expect_same_bits(get_joined(split, "p1", "c1"), whole.get("p1"));
  EXPECT_TRUE(std::isnan(split.get("p1")[7]));
  EXPECT_TRUE(std::isnan(split.get("p1")[8]));
}

TEST(SplitParameters, AreLeftAloneWhereTheGradientsAreNotFinite) {
  OpRunner split(bf16_update_program(kSizes, DType::bf16, DType::i16, DType::f32));
  fill_bf16_update(split, kSizes);
  std::vector<std::vector<float>> start;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    start.push_back(random_values(kSizes[i], 50 + i));
    set_split(split, numbered("p", i), numbered("c", i), start[i]);
  }
  split.set("norm", {std::numeric_limits<float>::infinity()});
  split.run();
  for (size_t i = 0; i < kSizes.size(); ++i) {
    expect_same_bits(get_joined(split, numbered("p", i), numbered("c", i)), start[i]);
  }
}

TEST(SplitParameters, AdafactorMovesThemAsFp32Ones) {
  std::vector<UpdatedTensors> shapes = factored_shapes();
  shapes.push_back({0, {20011}});
  OpRunner split(adafactor_program(shapes, DType::bf16, DType::i16));
  OpRunner whole(adafactor_program(shapes));
  begin_adafactor(split, shapes);
  begin_adafactor(whole, shapes);
  for (size_t i = 0; i < shapes.size(); ++i) {
    set_split(split, numbered("p", i), numbered("c", i), whole.get(numbered("p", i)));
  }
  for (int step = 1; step <= 5; ++step) {
    float norm = step == 3 ? std::numeric_limits<float>::quiet_NaN() : kAdafactorNorm;
    for (OpRunner* runner : {&split, &whole}) {
      runner->set("norm", {norm});
      run_adafactor_step(*runner, shapes, step);
    }
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<float> values = get_joined(split, numbered("p", i), numbered("c", i));
    expect_same_bits(values, whole.get(numbered("p", i)));
    expect_nearest(split.get(numbered("p", i)), values);
    EXPECT_EQ(split.get(numbered("s", i)), whole.get(numbered("s", i)));
  }
}

TEST(SplitParameters, ThreadsChangeNoBit) {
  auto with_threads = [&](int threads) {
    set_thread_count(threads);
    OpRunner runner(bf16_update_program(kSizes, DType::bf16, DType::i16, DType::f32));
    fill_bf16_update(runner, kSizes);
    set_split(runner, "p1", "c1", random_values(kSizes[1], 9));
    runner.run();
    set_thread_count(0);
    return std::pair(runner.bytes("p1"), runner.bytes("c1"));
  };
  EXPECT_EQ(with_threads(1), with_threads(3));
}

}  // namespace
}  // namespace snug
