// Gradients in bf16: whatever reads them takes them for the numbers that they are, and what adds to them
// rounds once.
#include <gtest/gtest.h>

#include "support/adafactor_update.h"
#include "support/bf16_update.h"
#include "support/rounded_gradients.h"
#include "support/run_ops.h"
#include "support/update_8bit.h"

namespace snug {
namespace {

// Runs the program twice, with the same gradients, which bf16 can hold, in fp32 and in bf16.
template <typename Fill>
void expect_no_difference(const Program& program, const Fill& fill) {
  Program rounded_program = with_rounded_gradients(program);
  OpRunner exact(program);
  OpRunner rounded_ones(rounded_program);
  fill(exact);
  fill(rounded_ones);
  for (size_t i = 0; program.find("g" + std::to_string(i)) != kNoBuffer; ++i) {
    std::string name = "g" + std::to_string(i);
    std::vector<float> values = rounded(exact.get(name), DType::bf16);
    exact.set(name, values);
    rounded_ones.set(name, values);
  }
  exact.run();
  rounded_ones.run();
  for (BufferId id : program.ops.back().outputs) {
    const std::string& name = program.buffer(id).name;
    EXPECT_EQ(rounded_ones.bytes(name), exact.bytes(name)) << name;
  }
}

TEST(RoundedGradients, AdamwReadsThem) {
  const std::vector<int64_t> sizes = {5, 20011, 16384, 40000};
  for (DType parameters : {DType::bf16, DType::f32}) {
    expect_no_difference(bf16_update_program(sizes, parameters),
                         [&](OpRunner& runner) { fill_bf16_update(runner, sizes); });
  }
  expect_no_difference(bf16_update_program(sizes, DType::f32, DType::bf16, DType::f32),
                       [&](OpRunner& runner) { fill_bf16_update(runner, sizes); });
}

TEST(RoundedGradients, AdamwIn8BitsReadsThem) {
  const std::vector<UpdatedTensors> tensors = {{37, {130, 20}, 0.1F}, {1, {5}, 0}, {64, {100, 33}, 0.01F}};
  Program program = update_8bit_program(tensors, DType::bf16);
  expect_no_difference(program, [&](OpRunner& runner) {
    begin_8bit_update(runner, program);
    runner.set("scalars", reference_scalars(1));
    for (size_t i = 0; i < tensors.size(); ++i) {
      runner.set("p" + std::to_string(i), random_values(tensors[i].elements(), i));
      runner.set("g" + std::to_string(i), random_values(tensors[i].elements(), 10 + i));
    }
  });
}

TEST(RoundedGradients, AdafactorReadsThem) {
  std::vector<UpdatedTensors> shapes = factored_shapes();
  expect_no_difference(adafactor_program(shapes, DType::bf16), [&](OpRunner& runner) {
    begin_adafactor(runner, shapes);
    runner.set_ints("clock", {0, 0, 1, 1});
    runner.set_ints("random", {42, 1});
    for (size_t i = 0; i < shapes.size(); ++i) {
      runner.set("g" + std::to_string(i), factored_gradient(shapes[i], i, 1));
    }
  });
}

TEST(RoundedGradients, TheNormReadsThem) {
  Builder builder("norm");
  std::vector<BufferId> gradients;
  double squares = 0;
  const std::vector<int64_t> sizes = {3, 40003, 257};
  for (size_t i = 0; i < sizes.size(); ++i) {
    gradients.push_back(
        builder.persistent("g" + std::to_string(i), DType::f32, {fixed(sizes[i])}, Role::gradients));
    std::vector<float> values = random_values(sizes[i], i);
    for (float value : i % 2 == 0 ? rounded(values, DType::bf16) : values) {
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  BufferId norm = builder.temporary("norm", DType::f32, {fixed(1)});
  builder.append(OpKind::gradient_norm, "norm", gradients, {norm});
  OpRunner runner(with_rounded_gradients(builder.finish()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    runner.set("g" + std::to_string(i), random_values(sizes[i], i));
  }
  runner.run();
  EXPECT_NEAR(runner.get("norm")[0], std::sqrt(squares), 1e-6 * std::sqrt(squares));
}

// Half a unit in the last place of bf16, and what fp32 sums of so many products may be off.
void expect_rounded_once(const std::vector<float>& got, const std::vector<double>& wanted, double sum_error) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    double unit = wanted[i] == 0 ? 0 : std::ldexp(1.0, std::ilogb(wanted[i]) - 7);
    ASSERT_NEAR(static_cast<double>(got[i]), wanted[i], 0.5 * unit + sum_error) << i;
  }
}

TEST(RoundedGradients, TokensOfOneIdAreRoundedTogether) {
  constexpr int64_t kTokens = 300;
  constexpr int64_t kWidth = 21;
  constexpr int64_t kVocabulary = 7;
  for (bool accumulate : {false, true}) {
    Builder builder("embedding");
    BufferId ids_id = builder.input("ids", DType::i32, {tokens(kTokens)});
    BufferId dy_id = builder.input("dy", DType::bf16, {tokens(kTokens), fixed(kWidth)});
    BufferId dtable =
        builder.persistent("dtable", DType::bf16, {fixed(kVocabulary), fixed(kWidth)}, Role::gradients);
    builder.append(OpKind::embedding_backward, "embedding", {ids_id, dy_id}, {dtable}).accumulates =
        accumulate ? 1 : 0;
    OpRunner runner(builder.finish());
    std::vector<int64_t> ids = random_ids(kTokens, 1, kVocabulary - 1);  // one row stays as it is
    std::vector<float> dy = rounded(random_values(kTokens * kWidth, 2), DType::bf16);
    std::vector<float> before = rounded(random_values(kVocabulary * kWidth, 3), DType::bf16);
    runner.set_ints("ids", ids);
    runner.set("dy", dy);
    runner.set("dtable", before);
    runner.run();
    std::vector<double> wanted(before.size(), 0.0);
    for (size_t i = 0; accumulate && i < before.size(); ++i) {
      wanted[i] = static_cast<double>(before[i]);
    }
    for (size_t i = 0; i < dy.size(); ++i) {
      auto row = static_cast<size_t>(ids[i / kWidth]);
      wanted[row * kWidth + i % kWidth] += static_cast<double>(dy[i]);
    }
    expect_rounded_once(runner.get("dtable"), wanted, kTokens * 0x1p-23 * 10);
  }
}

TEST(RoundedGradients, ProductsAreRoundedOnce) {
  constexpr int64_t kTokens = 411;
  constexpr int64_t kIn = 39;
  constexpr int64_t kOut = 401;
  for (bool accumulate : {false, true}) {
    Builder builder("linear");
    BufferId dy_id = builder.input("dy", DType::bf16, {tokens(kTokens), fixed(kOut)});
    BufferId x_id = builder.input("x", DType::bf16, {tokens(kTokens), fixed(kIn)});
    BufferId dw = builder.persistent("dw", DType::bf16, {fixed(kOut), fixed(kIn)}, Role::gradients);
    builder
        .append(OpKind::linear_backward_weight, "linear", {dy_id, x_id}, {dw, kNoBuffer},
                LinearAttributes{0.5F})
        .accumulates = accumulate ? 1 : 0;
    OpRunner runner(builder.finish());
    std::vector<float> dy = rounded(random_values(kTokens * kOut, 1), DType::bf16);
    std::vector<float> x = rounded(random_values(kTokens * kIn, 2), DType::bf16);
    std::vector<float> before = rounded(random_values(kOut * kIn, 3), DType::bf16);
    runner.set("dy", dy);
    runner.set("x", x);
    runner.set("dw", before);
    runner.run();
    std::vector<double> wanted(before.size(), 0.0);
    for (size_t o = 0; o < kOut; ++o) {
      for (size_t i = 0; i < kIn; ++i) {
        double sum = 0;
        for (size_t t = 0; t < kTokens; ++t) {
          sum += static_cast<double>(dy[t * kOut + o]) * static_cast<double>(x[t * kIn + i]);
        }
        wanted[o * kIn + i] = 0.5 * sum + (accumulate ? static_cast<double>(before[o * kIn + i]) : 0.0);
      }
    }
    expect_rounded_once(runner.get("dw"), wanted, kTokens * 0x1p-23 * 20);
  }
}

}  // namespace
}  // namespace snug
