// The products (linear, LoRA and their gradients) against sums in double, on sizes that leave odd edges and
// on sizes that need several blocks.
#include "backend/cpu/gemm.h"

#include <algorithm>
#include <functional>

#include "base/addressable.h"
#include "base/threads.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

// A matrix in double, row-major.
struct Matrix {
  int64_t rows;
  int64_t columns;
  std::vector<double> values;

  Matrix(int64_t row_count, int64_t column_count)
      : rows(row_count), columns(column_count), values(static_cast<size_t>(row_count * column_count)) {}
  Matrix(int64_t row_count, int64_t column_count, const std::vector<float>& from)
      : rows(row_count), columns(column_count), values(from.begin(), from.end()) {}
  double& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }

  Matrix transposed() const {
    Matrix result(columns, rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        result.at(j, i) = at(i, j);
      }
    }
    return result;
  }
};

Matrix multiply(const Matrix& a, const Matrix& b, double scale) {
  Matrix c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t p = 0; p < a.columns; ++p) {
      for (int64_t j = 0; j < b.columns; ++j) {
        c.at(i, j) += scale * a.at(i, p) * b.at(p, j);
      }
    }
  }
  return c;
}

void add_to(Matrix& sum, const std::vector<float>& before) {
  for (size_t i = 0; i < before.size(); ++i) {
    sum.values[i] += static_cast<double>(before[i]);
  }
}

// Sums of `inner` products of unit size, which reach about its root on the way, scaled and added to
// something.
void expect_product(const std::vector<float>& actual, const Matrix& expected, DType dtype, int64_t inner) {
  auto terms = static_cast<double>(inner);
  expect_close(actual, expected.values, fp32_error(terms + 3) + (dtype == DType::bf16 ? 0x1p-8 : 0),
               std::sqrt(terms));
}

struct Case {
  int64_t tokens;
  int64_t in;
  int64_t out;
  DType activation;
  DType weight;
};

class LinearTest : public testing::TestWithParam<Case> {
 protected:
  std::vector<float> x() const {
    return rounded(random_values(GetParam().tokens * GetParam().in, 1), GetParam().activation);
  }
  std::vector<float> w() const {
    return rounded(random_values(GetParam().out * GetParam().in, 2), GetParam().weight);
  }
  std::vector<float> dy() const {
    return rounded(random_values(GetParam().tokens * GetParam().out, 3), GetParam().activation);
  }
  std::vector<float> bias() const { return rounded(random_values(GetParam().out, 4), GetParam().weight); }
};

TEST_P(LinearTest, Forward) {
  auto [count, in, out, activation, weight] = GetParam();
  for (int variant = 0; variant < 4; ++variant) {
    bool accumulate = (variant & 1) != 0;
    bool with_bias = (variant & 2) != 0;
    Builder builder("linear");
    BufferId x_id = builder.input("x", activation, {tokens(count + 3), fixed(in)});
    BufferId w_id = builder.weight("w", weight, {fixed(out), fixed(in)}, {});
    BufferId bias_id = builder.weight("bias", weight, {fixed(out)}, {});
    BufferId y = builder.input("y", activation, {tokens(count + 3), fixed(out)});
    Op& op = builder.append(OpKind::linear, "linear", {x_id, w_id, with_bias ? bias_id : kNoBuffer}, {y},
                            LinearAttributes{0.75F});
    op.accumulates = accumulate ? 1 : 0;
    OpRunner runner(builder.finish());
    runner.set("x", x());
    runner.set("w", w());
    runner.set("bias", bias());
    std::vector<float> before = rounded(random_values(count * out, 5), activation);
    if (accumulate) {
      runner.set("y", before);
    }
    runner.run(at_tokens(count));
    Matrix expected = multiply(Matrix(count, in, x()), Matrix(out, in, w()).transposed(), 0.75);
    if (accumulate) {
      add_to(expected, before);
    }
    if (with_bias) {
      // A column of ones times the bias.
      Matrix ones(count, 1, std::vector<float>(static_cast<size_t>(count), 1.0F));
      Matrix rows = multiply(ones, Matrix(1, out, bias()), 1.0);
      std::transform(rows.values.begin(), rows.values.end(), expected.values.begin(), expected.values.begin(),
                     std::plus<>());
    }
    expect_product(runner.get("y"), expected, activation, in);
  }
}

TEST_P(LinearTest, BackwardInput) {
  auto [count, in, out, activation, weight] = GetParam();
  for (bool accumulate : {false, true}) {
    Builder builder("linear");
    BufferId dy_id = builder.input("dy", activation, {tokens(count + 3), fixed(out)});
    BufferId w_id = builder.weight("w", weight, {fixed(out), fixed(in)}, {});
    BufferId dx = builder.input("dx", activation, {tokens(count + 3), fixed(in)});
    Op& op =
        builder.append(OpKind::linear_backward_input, "linear", {dy_id, w_id}, {dx}, LinearAttributes{0.75F});
    op.accumulates = accumulate ? 1 : 0;
    OpRunner runner(builder.finish());
    runner.set("dy", dy());
    runner.set("w", w());
    std::vector<float> before = rounded(random_values(count * in, 5), activation);
    if (accumulate) {
      runner.set("dx", before);
    }
    runner.run(at_tokens(count));
    Matrix expected = multiply(Matrix(count, out, dy()), Matrix(out, in, w()), 0.75);
    if (accumulate) {
      add_to(expected, before);
    }
    expect_product(runner.get("dx"), expected, activation, out);
  }
}

TEST_P(LinearTest, BackwardWeight) {
  auto [count, in, out, activation, weight] = GetParam();
  for (int absent = 0; absent < 3; ++absent) {  // 1: no dW, 2: no dbias
    for (bool accumulate : {false, true}) {
      Builder builder("linear");
      BufferId dy_id = builder.input("dy", activation, {tokens(count + 3), fixed(out)});
      BufferId x_id = builder.input("x", activation, {tokens(count + 3), fixed(in)});
      BufferId dw = builder.persistent("dw", DType::f32, {fixed(out), fixed(in)}, Role::gradients);
      BufferId dbias = builder.persistent("dbias", DType::f32, {fixed(out)}, Role::gradients);
      Op& op = builder.append(OpKind::linear_backward_weight, "linear", {dy_id, x_id},
                              {absent == 1 ? kNoBuffer : dw, absent == 2 ? kNoBuffer : dbias},
                              LinearAttributes{0.75F});
      op.accumulates = accumulate ? 3 : 0;
      OpRunner runner(builder.finish());
      runner.set("dy", dy());
      runner.set("x", x());
      std::vector<float> before = random_values(out * in, 5);
      std::vector<float> before_bias = random_values(out, 6);
      runner.set("dw", before);
      runner.set("dbias", before_bias);
      runner.run(at_tokens(count));
      Matrix dy_matrix(count, out, dy());
      Matrix expected = multiply(dy_matrix.transposed(), Matrix(count, in, x()), 0.75);
      // Column sums: a row of ones times dy.
      Matrix ones(1, count, std::vector<float>(static_cast<size_t>(count), 1.0F));
      Matrix expected_bias = multiply(ones, dy_matrix, 1.0);
      if (accumulate) {
        add_to(expected, before);
        add_to(expected_bias, before_bias);
      }
      if (absent == 1) {
        EXPECT_EQ(runner.get("dw"), before);
      } else {
        expect_product(runner.get("dw"), expected, DType::f32, count);
      }
      if (absent == 2) {
        EXPECT_EQ(runner.get("dbias"), before_bias);
      } else {
        expect_product(runner.get("dbias"), expected_bias, DType::f32, count);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, LinearTest,
    testing::Values(Case{1, 1, 1, DType::f32, DType::f32}, Case{1, 37, 130, DType::bf16, DType::bf16},
                    Case{3, 16, 5, DType::f32, DType::bf16}, Case{7, 33, 9, DType::f32, DType::f32},
                    Case{33, 7, 65, DType::bf16, DType::f32}, Case{33, 517, 401, DType::bf16, DType::bf16},
                    Case{33, 517, 401, DType::f32, DType::f32}, Case{411, 39, 27, DType::bf16, DType::bf16},
                    Case{411, 39, 27, DType::f32, DType::bf16}));

// Two adapted layers of different widths side by side, with a layer between them that has no adapter.
class LoraTest : public testing::TestWithParam<std::pair<DType, DType>> {
 protected:
  static constexpr int64_t kTokens = 33;
  static constexpr int64_t kRank = 3;
  static constexpr int64_t kOut = 60;
  static constexpr int64_t kRowsOfB = 13 + 17;
  DType activation_ = GetParam().first;
  DType weight_ = GetParam().second;
  LoraAttributes attributes_{1.5F, kRank, {{2, 0, 13}, {40, 13, 17}}};
  std::vector<float> down_ = rounded(random_values(kTokens * 2 * kRank, 1), activation_);
  std::vector<float> b_ = rounded(random_values(kRowsOfB * kRank, 2), weight_);
  std::vector<float> y_ = rounded(random_values(kTokens * kOut, 3), activation_);

  // The three factors of part i of the products, cut out of the whole matrices.
  Matrix columns(const std::vector<float>& from, int64_t width, int64_t first, int64_t count) const {
    Matrix result(kTokens, count);
    for (int64_t i = 0; i < kTokens; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        result.at(i, j) = static_cast<double>(from[static_cast<size_t>(i * width + first + j)]);
      }
    }
    return result;
  }
  Matrix down_of(int64_t part) const { return columns(down_, 2 * kRank, part * kRank, kRank); }
  Matrix y_of(const LoraPart& part) const { return columns(y_, kOut, part.y_column, part.rows); }
  Matrix b_of(const LoraPart& part) const {
    auto first = b_.begin() + part.b_row * kRank;
    return {part.rows, kRank, std::vector<float>(first, first + part.rows * kRank)};
  }
};

TEST_P(LoraTest, UpAddsToItsColumnsOnly) {
  Builder builder("lora");
  BufferId down = builder.input("down", activation_, {tokens(kTokens), fixed(2 * kRank)});
  BufferId b = builder.weight("b", weight_, {fixed(kRowsOfB), fixed(kRank)}, {});
  BufferId y = builder.input("y", activation_, {tokens(kTokens), fixed(kOut)});
  builder.append(OpKind::lora_up, "lora", {down, b}, {y}, attributes_).accumulates = 1;
  OpRunner runner(builder.finish());
  runner.set("down", down_);
  runner.set("b", b_);
  runner.set("y", y_);
  runner.run();
  Matrix expected(kTokens, kOut, y_);
  for (size_t i = 0; i < attributes_.parts.size(); ++i) {
    const LoraPart& part = attributes_.parts[i];
    Matrix added = multiply(down_of(static_cast<int64_t>(i)), b_of(part).transposed(), 1.5);
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t j = 0; j < part.rows; ++j) {
        expected.at(t, part.y_column + j) += added.at(t, j);
      }
    }
  }
  expect_product(runner.get("y"), expected, activation_, kRank);
}

TEST_P(LoraTest, BackwardInput) {
  Builder builder("lora");
  BufferId dy = builder.input("dy", activation_, {tokens(kTokens), fixed(kOut)});
  BufferId b = builder.weight("b", weight_, {fixed(kRowsOfB), fixed(kRank)}, {});
  BufferId ddown = builder.temporary("ddown", activation_, {tokens(kTokens), fixed(2 * kRank)});
  BufferId down = builder.input("down", activation_, {tokens(kTokens), fixed(2 * kRank)});
  builder.append(OpKind::lora_up_backward, "lora", {dy, down, b}, {ddown, kNoBuffer}, attributes_);
  OpRunner runner(builder.finish());
  runner.set("dy", y_);
  runner.set("b", b_);
  runner.run();
  Matrix expected(kTokens, 2 * kRank);
  for (size_t i = 0; i < attributes_.parts.size(); ++i) {
    const LoraPart& part = attributes_.parts[i];
    Matrix product = multiply(y_of(part), b_of(part), 1.5);
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t j = 0; j < kRank; ++j) {
        expected.at(t, static_cast<int64_t>(i) * kRank + j) = product.at(t, j);
      }
    }
  }
  expect_product(runner.get("ddown"), expected, activation_, 17);
}

TEST_P(LoraTest, BackwardWeight) {
  for (bool accumulate : {false, true}) {
    Builder builder("lora");
    BufferId dy = builder.input("dy", activation_, {tokens(kTokens), fixed(kOut)});
    BufferId down = builder.input("down", activation_, {tokens(kTokens), fixed(2 * kRank)});
    BufferId db = builder.persistent("db", DType::f32, {fixed(kRowsOfB), fixed(kRank)}, Role::gradients);
    BufferId b = builder.weight("b", weight_, {fixed(kRowsOfB), fixed(kRank)}, {});
    Op& op = builder.append(OpKind::lora_up_backward, "lora", {dy, down, b}, {kNoBuffer, db}, attributes_);
    op.accumulates = accumulate ? 2 : 0;
    OpRunner runner(builder.finish());
    runner.set("dy", y_);
    runner.set("down", down_);
    std::vector<float> before = random_values(kRowsOfB * kRank, 5);
    runner.set("db", before);
    runner.run();
    Matrix expected(kRowsOfB, kRank);
    for (size_t i = 0; i < attributes_.parts.size(); ++i) {
      const LoraPart& part = attributes_.parts[i];
      Matrix product = multiply(y_of(part).transposed(), down_of(static_cast<int64_t>(i)), 1.5);
      for (int64_t t = 0; t < part.rows; ++t) {
        for (int64_t j = 0; j < kRank; ++j) {
          expected.at(part.b_row + t, j) = product.at(t, j);
        }
      }
    }
    if (accumulate) {
      add_to(expected, before);
    }
    expect_product(runner.get("db"), expected, DType::f32, kTokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LoraTest,
                         testing::Values(std::pair{DType::f32, DType::f32},
                                         std::pair{DType::bf16, DType::f32},
                                         std::pair{DType::bf16, DType::bf16}));

// More threads than the sizes deserve: every part must still be made once, within the planned workspace.
TEST(Gemm, AnyThreadCountGivesTheSameProduct) {
  constexpr int64_t kRows = 130;
  constexpr int64_t kInner = 300;
  constexpr int64_t kColumns = 50;
  std::vector<float> x = rounded(random_values(kRows * kInner, 1), DType::bf16);
  std::vector<float> w = rounded(random_values(kColumns * kInner, 2), DType::bf16);
  Matrix expected = multiply(Matrix(kRows, kInner, x), Matrix(kColumns, kInner, w).transposed(), 1.0);
  for (int threads : {1, 2, 3, 4, 7, 12}) {
    set_thread_count(threads);
    for (DType dtype : {DType::f32, DType::bf16}) {
      Builder builder("linear");
      BufferId x_id = builder.input("x", dtype, {tokens(kRows), fixed(kInner)});
      BufferId w_id = builder.weight("w", dtype, {fixed(kColumns), fixed(kInner)}, {});
      BufferId y = builder.temporary("y", dtype, {tokens(kRows), fixed(kColumns)});
      builder.append(OpKind::linear, "linear", {x_id, w_id}, {y}, LinearAttributes{});
      OpRunner runner(builder.finish());
      runner.set("x", x);
      runner.set("w", w);
      runner.run();
      expect_product(runner.get("y"), expected, dtype, kInner);
    }
  }
  set_thread_count(0);
}

// So many threads that each has smaller blocks.
TEST(Gemm, ManyThreadsGiveTheSameProduct) {
  constexpr int64_t kRows = 400;
  constexpr int64_t kInner = 300;
  constexpr int64_t kColumns = 200;
  std::vector<float> x = rounded(random_values(kRows * kInner, 1), DType::bf16);
  std::vector<float> w = rounded(random_values(kColumns * kInner, 2), DType::bf16);
  Matrix expected = multiply(Matrix(kRows, kInner, x), Matrix(kColumns, kInner, w).transposed(), 1.0);
  for (int threads : {90, 300}) {
    set_thread_count(threads);
    Builder builder("linear");
    BufferId x_id = builder.input("x", DType::bf16, {tokens(kRows), fixed(kInner)});
    BufferId w_id = builder.weight("w", DType::bf16, {fixed(kColumns), fixed(kInner)}, {});
    BufferId y = builder.temporary("y", DType::bf16, {tokens(kRows), fixed(kColumns)});
    builder.append(OpKind::linear, "linear", {x_id, w_id}, {y}, LinearAttributes{});
    OpRunner runner(builder.finish());
    runner.set("x", x);
    runner.set("w", w);
    runner.run();
    expect_product(runner.get("y"), expected, DType::bf16, kInner);
  }
  set_thread_count(0);
}

#ifdef SNUG_ASKS_FOR_ADDRESSES
// The loops that convert rows are compiled without AddressSanitizer, which is asked about each row before.
TEST(GemmDeathTest, ARowThatGoesOnWhereNoMemoryIsIsFound) {
  std::vector<bf16_t> seven(7);
  std::vector<float> eight(8);
  cpu::MatrixView row{seven.data(), DType::bf16, 1, 8, 8};
  EXPECT_DEATH(cpu::load_block(row, eight.data(), 8), "a row goes on where no memory is");
  EXPECT_DEATH(cpu::store_block(eight.data(), 8, row), "a row goes on where no memory is");
}
#endif

TEST(Gemm, WorkspaceStaysSmallWhateverTheThreads) {
  constexpr int64_t kLarge = 1 << 17;
  EXPECT_EQ(cpu::gemm_workspace_bytes({kLarge, kLarge, kLarge}, 2), 0);
  cpu::GemmSizes sizes{kLarge, kLarge, kLarge, DType::bf16, DType::bf16, DType::bf16};
  EXPECT_EQ(cpu::gemm_workspace_bytes(sizes, 2), 2 * (2 * 384 * 256 + 384 * 384) * 4);
  for (int threads = 1; threads <= kMostThreads; ++threads) {
    EXPECT_LE(cpu::gemm_workspace_bytes(sizes, threads), 64 << 20) << threads;
  }
}

}  // namespace
}  // namespace snug
