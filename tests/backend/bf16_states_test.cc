// AdamW with bf16 moments and parameters: what plain rounding would lose arrives.
#include <bit>
#include <cmath>
#include <limits>

#include "backend/adamw_formula.h"
#include "base/threads.h"
#include "support/bf16_update.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

float from_bits(uint16_t bits) {
  return to_float(bf16_t{bits});
}

TEST(StochasticRounding, IsUnbiasedOverAllRandomBits) {
  for (float value : {1.0F, 1.001F, -3.14159F, 1e-30F, 65000.5F, -0.0F, 0x1.fffffep-3F, 1e-40F}) {
    double sum = 0;
    double lowest = std::numeric_limits<double>::infinity();
    double highest = -lowest;
    for (uint32_t random = 0; random < 65536; ++random) {
      double rounded_value = static_cast<double>(from_bits(stochastic_bf16_bits(value, random)));
      sum += rounded_value;
      lowest = std::min(lowest, rounded_value);
      highest = std::max(highest, rounded_value);
    }
    EXPECT_EQ(sum / 65536, static_cast<double>(value));
    EXPECT_LE(highest - lowest, std::abs(static_cast<double>(value)) * 0x1p-7 + 1e-40);
    EXPECT_EQ(std::signbit(from_bits(stochastic_bf16_bits(value, 0xffff))), std::signbit(value));
  }
}

TEST(StochasticRounding, LeavesWhatIsNoOrdinaryNumber) {
  float infinity = std::numeric_limits<float>::infinity();
  for (uint32_t random : {0U, 1U, 0x8000U, 0xffffU, 0xffffffffU}) {
    EXPECT_EQ(from_bits(stochastic_bf16_bits(infinity, random)), infinity);
    EXPECT_EQ(from_bits(stochastic_bf16_bits(-infinity, random)), -infinity);
    EXPECT_TRUE(std::isnan(from_bits(stochastic_bf16_bits(std::numeric_limits<float>::quiet_NaN(), random))));
    EXPECT_TRUE(std::isnan(from_bits(stochastic_bf16_bits(std::bit_cast<float>(0x7f800001U), random))));
    EXPECT_TRUE(std::isfinite(from_bits(stochastic_bf16_bits(std::numeric_limits<float>::max(), random))));
  }
}

// A thousand steps of 1e-4 from 1.0: bf16's neighbours of 1.0 are 1/256 below and 1/128 above.
TEST(Bf16States, SmallUpdatesArriveInTheMean) {
  constexpr int64_t kElements = 8192;
  OpRunner runner(bf16_update_program({kElements}, DType::bf16));
  runner.set("p0", std::vector<float>(kElements, 1.0F));
  runner.set("m0", std::vector<float>(kElements, 0.0F));
  runner.set("v0", std::vector<float>(kElements, 0.0F));
  runner.set("norm", {1.0F});
  double parameter = 1;
  double first = 0;
  double second = 0;
  float rounded_to_nearest = 1;
  for (int t = 1; t <= 1000; ++t) {
    double gradient = 0.01 + 0.005 * std::sin(0.1 * t);
    double correction1 = 1 - std::pow(kUpdateBeta1, t);
    double correction2 = 1 - std::pow(kUpdateBeta2, t);
    first = kUpdateBeta1 * first + (1 - kUpdateBeta1) * gradient;
    second = kUpdateBeta2 * second + (1 - kUpdateBeta2) * gradient * gradient;
    double change = 1e-4 * (first / correction1) / (std::sqrt(second / correction2) + kUpdateEpsilon);
    parameter = parameter * (1 - 1e-4 * 0.125) - change;
    rounded_to_nearest =
        to_float(to_bf16(rounded_to_nearest * (1 - 1e-4F * 0.125F) - static_cast<float>(change)));
    runner.set("g0", std::vector<float>(kElements, static_cast<float>(gradient)));
    runner.set("scalars", {1e-4F, static_cast<float>(correction1), static_cast<float>(correction2), 1.0F});
    runner.set_ints("random", {7, t});
    runner.run();
  }
  EXPECT_EQ(rounded_to_nearest, 1.0F);  // plain rounding loses every step
  ASSERT_NEAR(parameter, 0.89, 0.02);
  auto mean = [&](const char* name) {
    std::vector<float> values = runner.get(name);
    double sum = 0;
    for (float value : values) {
      sum += static_cast<double>(value);
    }
    return sum / static_cast<double>(values.size());
  };
  // An element strays by about 0.02; the mean of 8192 by about 0.0003.
  EXPECT_NEAR(mean("p0"), parameter, 0.0015);
  EXPECT_NEAR(mean("m0"), first, 0.01 * first);
  EXPECT_NEAR(mean("v0"), second, 0.01 * second);
}

// One step: every value is one of the two neighbours of what exact arithmetic gives, and both happen.
TEST(Bf16States, EachValueIsANeighbourOfTheExactOne) {
  constexpr int64_t kElements = 5003;
  for (DType dtype : {DType::bf16, DType::f32}) {
    OpRunner runner(bf16_update_program({kElements}, dtype));
    fill_bf16_update(runner, {kElements});
    std::vector<float> p = runner.get("p0");
    std::vector<float> g = runner.get("g0");
    std::vector<float> m = runner.get("m0");
    std::vector<float> v = runner.get("v0");
    runner.run();
    int up = 0;
    auto expect_neighbour = [&](float got, double wanted) {
      double distance = static_cast<double>(got) - wanted;
      EXPECT_LE(std::abs(distance), std::abs(wanted) * 0x1p-7 * 1.001 + 1e-12);
      up += distance > 0 ? 1 : 0;
    };
    std::vector<float> new_p = runner.get("p0");
    std::vector<float> new_m = runner.get("m0");
    std::vector<float> new_v = runner.get("v0");
    for (size_t i = 0; i < static_cast<size_t>(kElements); ++i) {
      double gradient = static_cast<double>(g[i]);
      double first = kUpdateBeta1 * static_cast<double>(m[i]) + (1 - kUpdateBeta1) * gradient;
      double second = kUpdateBeta2 * static_cast<double>(v[i]) + (1 - kUpdateBeta2) * gradient * gradient;
      double change = 0.01 * (first / 0.5) / (std::sqrt(second / 0.25) + kUpdateEpsilon);
      double parameter = static_cast<double>(p[i]) * (1 - 0.01 * 0.125) - change;
      expect_neighbour(new_m[i], first);
      expect_neighbour(new_v[i], second);
      if (dtype == DType::bf16) {
        expect_neighbour(new_p[i], parameter);
      } else {
        EXPECT_NEAR(static_cast<double>(new_p[i]), parameter, 1e-5);
      }
    }
    int roundings = static_cast<int>(kElements) * (dtype == DType::bf16 ? 3 : 2);
    EXPECT_NEAR(up, roundings / 2, roundings / 20);
  }
}

TEST(Bf16States, ThreadsChangeNoBitButSeedAndStepDo) {
  const std::vector<int64_t> sizes = {3, 40003, 257};
  auto parameters_with = [&](int threads, int64_t seed, int64_t step) {
    set_thread_count(threads);
    OpRunner runner(bf16_update_program(sizes, DType::bf16));
    fill_bf16_update(runner, sizes);
    runner.set_ints("random", {seed, step});
    runner.run();
    set_thread_count(0);
    return runner.get("p1");
  };
  std::vector<float> alone = parameters_with(1, 7, 3);
  EXPECT_EQ(alone, parameters_with(3, 7, 3));
  EXPECT_NE(alone, parameters_with(1, 8, 3));
  EXPECT_NE(alone, parameters_with(1, 7, 4));
}

}  // namespace
}  // namespace snug
