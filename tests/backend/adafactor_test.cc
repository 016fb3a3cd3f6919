// Adafactor against its formula in double, as Hugging Face's class of this name computes it.
#include "backend/adafactor_formula.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/threads.h"
#include "support/adafactor_update.h"
#include "support/run_ops.h"

namespace snug {
namespace {

TEST(Adafactor, TheWeightOfAStepsSquares) {
  for (double updates : {1.0, 2.0, 3.0, 10.0, 1000.0, 234'375.0, 1e9}) {
    double wanted = std::pow(updates, -0.8);
    EXPECT_NEAR(square_weight(updates), wanted, 1e-14 * wanted) << updates;
  }
}

// One tensor in double.
struct Exact {
  int64_t rows;
  int64_t columns;  // 0: a vector
  double decay;
  std::vector<double> parameter;
  std::vector<double> row_means = {};
  std::vector<double> column_means = {};

  void step(const std::vector<float>& gradient, int t) {
    auto length = static_cast<size_t>(std::max(columns, int64_t{1}));
    auto count = static_cast<size_t>(rows);
    row_means.resize(count);
    column_means.resize(length);
    double beta = 1 - std::pow(t, -0.8);
    std::vector<double> row_sums(count);
    std::vector<double> column_sums(length);
    std::vector<double> g(gradient.size());
    for (size_t i = 0; i < g.size(); ++i) {
      g[i] = static_cast<double>(gradient[i]) / static_cast<double>(kAdafactorNorm);
      row_sums[i / length] += g[i] * g[i] + 1e-30;
      column_sums[i % length] += g[i] * g[i] + 1e-30;
    }
    double mean_of_rows = 0;
    for (size_t i = 0; i < count; ++i) {
      row_means[i] = beta * row_means[i] + (1 - beta) * row_sums[i] / static_cast<double>(length);
      mean_of_rows += row_means[i] / static_cast<double>(count);
    }
    for (size_t j = 0; j < length; ++j) {
      column_means[j] = beta * column_means[j] + (1 - beta) * column_sums[j] / static_cast<double>(count);
    }
    double squares = 0;
    std::vector<double> u(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      double mean =
          columns > 0 ? row_means[i / length] / mean_of_rows * column_means[i % length] : row_means[i];
      u[i] = g[i] / std::sqrt(mean);
      squares += u[i] * u[i];
    }
    double rms = std::sqrt(squares / static_cast<double>(g.size()));
    auto rate = static_cast<double>(kAdafactorRate);
    for (size_t i = 0; i < g.size(); ++i) {
      parameter[i] = parameter[i] * (1 - rate * decay) - rate / std::max(1.0, rms) * u[i];
    }
  }
};

std::vector<float> piece(const std::vector<float>& values, int64_t first, int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}

TEST(Adafactor, FollowsTheFormula) {
  std::vector<UpdatedTensors> shapes = factored_shapes();
  OpRunner runner(adafactor_program(shapes));
  begin_adafactor(runner, shapes);
  std::vector<Exact> exact;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<float> start = runner.get("p" + std::to_string(i));
    int64_t first = 0;
    for (int64_t rows : shapes[i].rows) {
      std::vector<float> own = piece(start, first, rows * std::max(shapes[i].columns, int64_t{1}));
      exact.push_back({.rows = rows,
                       .columns = shapes[i].columns,
                       .decay = static_cast<double>(shapes[i].weight_decay),
                       .parameter = {own.begin(), own.end()}});
      first += std::ssize(own);
    }
  }
  for (int step = 1; step <= 20; ++step) {
    run_adafactor_step(runner, shapes, step);
    size_t tensor = 0;
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<float> gradient = factored_gradient(shapes[i], i, step);
      int64_t first = 0;
      for (size_t part = 0; part < shapes[i].rows.size(); ++part, ++tensor) {
        int64_t count = std::ssize(exact[tensor].parameter);
        exact[tensor].step(piece(gradient, first, count), step);
        first += count;
      }
    }
  }
  size_t tensor = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<float> got = runner.get("p" + std::to_string(i));
    size_t at = 0;
    for (size_t part = 0; part < shapes[i].rows.size(); ++part, ++tensor) {
      for (double wanted : exact[tensor].parameter) {
        // 20 steps of at most 0.01 * sqrt(elements) and mostly 0.01, each good to a few roundings.
        EXPECT_NEAR(got[at], wanted, 2e-5) << i << " " << at;
        ++at;
      }
    }
  }
}

TEST(Adafactor, ThreadsChangeNoBit) {
  std::vector<UpdatedTensors> shapes = {{640, {200, 33}, 0.1F}, {0, {50'001}}};
  for (DType dtype : {DType::f32, DType::bf16}) {
    auto with_threads = [&](int threads) {
      set_thread_count(threads);
      OpRunner runner(adafactor_program(shapes, dtype));
      begin_adafactor(runner, shapes);
      run_adafactor_step(runner, shapes, 1);
      run_adafactor_step(runner, shapes, 2);
      set_thread_count(0);
      return std::pair(runner.get("p0"), runner.get("p1"));
    };
    EXPECT_EQ(with_threads(1), with_threads(3));
  }
}

// bf16 parameters are one of the two neighbours of the exact ones, and both happen.
TEST(Adafactor, Bf16ParametersAreRoundedByChance) {
  std::vector<UpdatedTensors> shapes = {{100, {90}}};
  OpRunner exact(adafactor_program(shapes));
  OpRunner rounded(adafactor_program(shapes, DType::bf16));
  begin_adafactor(exact, shapes);
  begin_adafactor(rounded, shapes);
  exact.set("p0", rounded.get("p0"));  // the same start
  run_adafactor_step(exact, shapes, 1);
  run_adafactor_step(rounded, shapes, 1);
  std::vector<float> wanted = exact.get("p0");
  std::vector<float> got = rounded.get("p0");
  int up = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(std::abs(got[i] - wanted[i]), std::abs(wanted[i]) * 0x1p-7F + 1e-12F);
    up += got[i] > wanted[i] ? 1 : 0;
  }
  EXPECT_NEAR(up, 4500, 450);
}

TEST(Adafactor, CopiesAreTheRoundedMaster) {
  std::vector<UpdatedTensors> shapes = factored_shapes();
  OpRunner runner(adafactor_program(shapes, DType::f32, DType::bf16));
  begin_adafactor(runner, shapes);
  run_adafactor_step(runner, shapes, 1);
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::string number = std::to_string(i);
    EXPECT_EQ(runner.get("c" + number), rounded(runner.get("p" + number), DType::bf16));
  }
}

TEST(Adafactor, GradientsThatAreNotFiniteChangeNothing) {
  std::vector<UpdatedTensors> shapes = factored_shapes();
  OpRunner runner(adafactor_program(shapes));
  begin_adafactor(runner, shapes);
  run_adafactor_step(runner, shapes, 1);
  std::vector<float> parameters = runner.get("p0");
  std::vector<float> states = runner.get("s0");
  runner.set("norm", {std::numeric_limits<float>::quiet_NaN()});
  run_adafactor_step(runner, shapes, 1);
  EXPECT_EQ(runner.get("p0"), parameters);
  EXPECT_EQ(runner.get("s0"), states);
}

}  // namespace
}  // namespace snug
