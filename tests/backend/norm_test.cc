// RMS norm against the formula in double, and its gradient against finite differences of that formula.
#include <cmath>

#include "base/threads.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

constexpr float kEpsilon = 1e-5F;

std::vector<double> norm_in_double(const std::vector<double>& x, const std::vector<double>& w) {
  size_t width = w.size();
  std::vector<double> y(x.size());
  for (size_t row = 0; row < x.size() / width; ++row) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) {
      sum += x[row * width + i] * x[row * width + i];
    }
    double scale = 1.0 / std::sqrt(sum / static_cast<double>(width) + static_cast<double>(kEpsilon));
    for (size_t i = 0; i < width; ++i) {
      y[row * width + i] = x[row * width + i] * scale * w[i];
    }
  }
  return y;
}

std::vector<double> as_double(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

struct Case {
  int64_t tokens;
  int64_t width;
  DType activation;
  DType weight;
};

class NormTest : public testing::TestWithParam<Case> {
 protected:
  std::vector<float> x() const {
    return rounded(random_values(GetParam().tokens * GetParam().width, 1, 2.0F), GetParam().activation);
  }
  std::vector<float> w() const { return rounded(random_values(GetParam().width, 2), GetParam().weight); }
  std::vector<float> dy() const {
    return rounded(random_values(GetParam().tokens * GetParam().width, 3), GetParam().activation);
  }

  // The gradient of sum(norm(x, w) * dy), by central differences in double.
  std::vector<double> difference_quotients(bool of_weight) const {
    std::vector<double> point_x = as_double(x());
    std::vector<double> point_w = as_double(w());
    std::vector<float> weights = dy();
    std::vector<double>& varied = of_weight ? point_w : point_x;
    auto objective = [&] {
      std::vector<double> y = norm_in_double(point_x, point_w);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        sum += y[i] * static_cast<double>(weights[i]);
      }
      return sum;
    };
    std::vector<double> gradient(varied.size());
    for (size_t i = 0; i < varied.size(); ++i) {
      constexpr double kStep = 1e-5;
      double kept = varied[i];
      varied[i] = kept + kStep;
      double above = objective();
      varied[i] = kept - kStep;
      gradient[i] = (above - objective()) / (2 * kStep);
      varied[i] = kept;
    }
    return gradient;
  }
};

TEST_P(NormTest, ForwardFollowsTheFormula) {
  auto [count, width, activation, weight] = GetParam();
  Builder builder("norm");
  BufferId x_id = builder.input("x", activation, {tokens(count + 2), fixed(width)});
  BufferId w_id = builder.weight("w", weight, {fixed(width)}, {});
  BufferId y_id = builder.temporary("y", activation, {tokens(count + 2), fixed(width)});
  builder.append(OpKind::rms_norm, "norm", {x_id, w_id}, {y_id}, NormAttributes{kEpsilon});
  OpRunner runner(builder.finish());
  runner.set("x", x());
  runner.set("w", w());
  runner.run(at_tokens(count));
  expect_close(runner.get("y"), norm_in_double(as_double(x()), as_double(w())),
               activation == DType::bf16 ? 0x1p-7 : tolerance_of(activation));
}

TEST_P(NormTest, AddingFirstGivesTheSumAndItsNorm) {
  auto [count, width, activation, weight] = GetParam();
  Builder builder("norm");
  BufferId a = builder.input("a", activation, {tokens(count), fixed(width)});
  BufferId b = builder.input("b", activation, {tokens(count), fixed(width)});
  BufferId w_id = builder.weight("w", weight, {fixed(width)}, {});
  BufferId sum = builder.temporary("sum", activation, {tokens(count), fixed(width)});
  BufferId y = builder.temporary("y", activation, {tokens(count), fixed(width)});
  builder.append(OpKind::add_rms_norm, "norm", {a, b, w_id}, {sum, y}, NormAttributes{kEpsilon});
  OpRunner runner(builder.finish());
  runner.set("a", x());
  runner.set("b", dy());
  runner.set("w", w());
  runner.run();
  std::vector<float> expected_sum = x();
  for (size_t i = 0; i < expected_sum.size(); ++i) {
    expected_sum[i] += dy()[i];
  }
  expected_sum = rounded(expected_sum, activation);
  EXPECT_EQ(runner.get("sum"), expected_sum);
  expect_close(runner.get("y"), norm_in_double(as_double(expected_sum), as_double(w())),
               activation == DType::bf16 ? 0x1p-7 : tolerance_of(activation));
}

TEST_P(NormTest, BackwardMatchesFiniteDifferences) {
  auto [count, width, activation, weight] = GetParam();
  for (bool accumulate : {false, true}) {
    for (int absent = 0; absent < 3; ++absent) {  // 1: no dx, 2: no dw
      Builder builder("norm");
      BufferId x_id = builder.input("x", activation, {tokens(count), fixed(width)});
      BufferId w_id = builder.weight("w", weight, {fixed(width)}, {});
      BufferId dy_id = builder.input("dy", activation, {tokens(count), fixed(width)});
      BufferId dx = builder.input("dx", activation, {tokens(count), fixed(width)});
      BufferId dw = builder.persistent("dw", DType::f32, {fixed(width)}, Role::gradients);
      Op& op = builder.append(OpKind::rms_norm_backward, "norm", {x_id, w_id, dy_id},
                              {absent == 1 ? kNoBuffer : dx, absent == 2 ? kNoBuffer : dw},
                              NormAttributes{kEpsilon});
      op.accumulates = accumulate ? 3 : 0;
      OpRunner runner(builder.finish());
      runner.set("x", x());
      runner.set("w", w());
      runner.set("dy", dy());
      std::vector<float> before_x = rounded(random_values(count * width, 4), activation);
      std::vector<float> before_w = random_values(width, 5);
      runner.set("dx", before_x);
      runner.set("dw", before_w);
      runner.run();
      auto added = [&](std::vector<double> gradient, const std::vector<float>& before) {
        for (size_t i = 0; accumulate && i < gradient.size(); ++i) {
          gradient[i] += static_cast<double>(before[i]);
        }
        return gradient;
      };
      if (absent == 1) {
        EXPECT_EQ(runner.get("dx"), before_x);
      } else {
        expect_close(runner.get("dx"), added(difference_quotients(false), before_x),
                     tolerance_of(activation));
      }
      if (absent == 2) {
        EXPECT_EQ(runner.get("dw"), before_w);
      } else {
        expect_close(runner.get("dw"), added(difference_quotients(true), before_w), 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, NormTest,
                         testing::Values(Case{1, 1, DType::f32, DType::f32},
                                         Case{3, 7, DType::f32, DType::f32},
                                         Case{37, 19, DType::f32, DType::bf16},
                                         Case{5, 33, DType::bf16, DType::bf16},
                                         Case{4, 16, DType::bf16, DType::f32}));

TEST(Norm, Bf16RoundsBeforeTheWeight) {
  // x = (1, 3): rms^2 = 5, so x / rms = 0.44721, 1.34164, in bf16 0.447266 and 1.34375. Times 0.75:
  // 0.335449 -> 0.335938 (0.335413 -> 0.335938 too), and 1.0078125, while 1.34164 * 0.75 -> 1.0.
  Builder builder("norm");
  BufferId x = builder.input("x", DType::bf16, {tokens(1), fixed(2)});
  BufferId w = builder.weight("w", DType::bf16, {fixed(2)}, {});
  BufferId y = builder.temporary("y", DType::bf16, {tokens(1), fixed(2)});
  builder.append(OpKind::rms_norm, "norm", {x, w}, {y}, NormAttributes{0});
  OpRunner runner(builder.finish());
  runner.set("x", {1, 3});
  runner.set("w", {0.75F, 0.75F});
  runner.run();
  EXPECT_EQ(runner.get("y"), (std::vector<float>{0.3359375F, 1.0078125F}));
}

TEST(Norm, WeightGradientDoesNotDependOnTheThreadCount) {
  constexpr int64_t kTokens = 2111;
  constexpr int64_t kWidth = 67;
  auto weight_gradient = [&](int threads) {
    set_thread_count(threads);
    Builder builder("norm");
    BufferId x = builder.input("x", DType::f32, {tokens(kTokens), fixed(kWidth)});
    BufferId w = builder.weight("w", DType::f32, {fixed(kWidth)}, {});
    BufferId dy = builder.input("dy", DType::f32, {tokens(kTokens), fixed(kWidth)});
    BufferId dw = builder.persistent("dw", DType::f32, {fixed(kWidth)}, Role::gradients);
    builder.append(OpKind::rms_norm_backward, "norm", {x, w, dy}, {kNoBuffer, dw}, NormAttributes{});
    OpRunner runner(builder.finish());
    runner.set("x", random_values(kTokens * kWidth, 1));
    runner.set("w", random_values(kWidth, 2));
    runner.set("dy", random_values(kTokens * kWidth, 3));
    runner.run();
    set_thread_count(0);
    return runner.get("dw");
  };
  std::vector<float> alone = weight_gradient(1);
  EXPECT_EQ(alone, weight_gradient(2));
  EXPECT_EQ(alone, weight_gradient(5));
}

}  // namespace
}  // namespace snug
