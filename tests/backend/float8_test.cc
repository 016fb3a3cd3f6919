// Floating-point numbers of 8 bits against PyTorch's casts (tools/make_float8_references.py), to the bit;
// products with weights of fp8 against sums in double of operands that are rounded here, by looking for the
// nearest number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/quantise.h"
#include "base/float8.h"
#include "io/tensor_source.h"
#include "support/coded_weight.h"
#include "support/run_ops.h"
#include "support/values.h"
#include "test_paths.h"

namespace snug {
namespace {

class Float8Casts : public testing::Test {
 protected:
  template <typename T>
  std::vector<T> read(const std::string& name, DType dtype) const {
    const SourceTensor& tensor = files_.find(name);
    std::vector<T> values(static_cast<size_t>(tensor.elements()));
    tensor.read(0, tensor.elements(), dtype, values.data());
    return values;
  }
  std::vector<float> floats(const std::string& name) const { return read<float>(name, DType::f32); }
  std::vector<uint8_t> codes(const std::string& name) const { return read<uint8_t>(name, DType::u8); }

  TensorSource files_ = open_tensors(SNUG_SOURCE_DIR "/tests/goldens/codes/float8.safetensors");
};

TEST_F(Float8Casts, PytorchsBits) {
  for (auto [name, kind] : {std::pair{"e4m3", Float8::e4m3}, std::pair{"e5m2", Float8::e5m2}}) {
    std::vector<float> values = floats(std::string(name) + ".values");
    std::vector<uint8_t> expected = codes(std::string(name) + ".codes");
    ASSERT_GT(values.size(), 900U);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(float8_code(kind, values[i]), expected[i]) << name << " " << values[i];
    }
  }
}

TEST_F(Float8Casts, EveryNumberIsItsOwnCode) {
  for (Float8 kind : {Float8::e4m3, Float8::e5m2}) {
    for (int code = 0; code < 256; ++code) {
      float value = float8_value(kind, static_cast<uint8_t>(code));
      if (std::isfinite(value)) {
        EXPECT_EQ(float8_code(kind, value), code);
      }
    }
    EXPECT_TRUE(std::isnan(float8_value(kind, 0x7f)));
  }
  EXPECT_EQ(float8_value(Float8::e4m3, 0x7e), 448.0F);
  EXPECT_EQ(float8_value(Float8::e4m3, 0x81), -0x1p-9F);
  EXPECT_EQ(float8_value(Float8::e5m2, 0x7b), 57344.0F);
  EXPECT_EQ(float8_value(Float8::e5m2, 0x01), 0x1p-16F);
}

TEST_F(Float8Casts, RowsOfAWeight) {
  std::vector<float> values = floats("rows.values");
  int64_t columns = files_.find("rows.values").shape()[1];
  std::vector<uint8_t> made(values.size());
  std::vector<float> scales(values.size() / static_cast<size_t>(columns));
  quantise_rows(Coding::fp8, columns, values, made.data(), scales.data());
  EXPECT_EQ(scales, floats("rows.scales"));
  EXPECT_EQ(made, codes("rows.codes"));
  // As they come from a file, some rows at a time.
  std::vector<uint8_t> pieces(values.size());
  std::vector<float> piece_scales(scales.size());
  CpuBackend backend;
  CodePiece piece{.format = kFp8, .columns = columns};
  for (int64_t row = 0; row < std::ssize(scales); row += 5) {
    piece.values = values.data() + row * columns;
    piece.count = std::min<int64_t>(5, std::ssize(scales) - row) * columns;
    piece.codes = reinterpret_cast<std::byte*>(pieces.data()) + row * columns;
    piece.scales = piece_scales.data() + row;
    backend.quantise(piece);
  }
  EXPECT_EQ(piece_scales, scales);
  EXPECT_EQ(pieces, made);
}

// What cannot be scaled shows: a row with an infinity is NaN altogether, a NaN stays where it is.
TEST_F(Float8Casts, NothingHidesWhatIsNoNumber) {
  std::vector<float> values = {1, std::numeric_limits<float>::infinity(), 1, NAN};
  std::vector<uint8_t> made(4);
  std::vector<float> scales(2);
  quantise_rows(Coding::fp8, 2, values, made.data(), scales.data());
  EXPECT_TRUE(std::isnan(scales[0]));
  EXPECT_EQ(scales[1], 0x1p-8F);
  EXPECT_EQ(made[2], float8_code(Float8::e4m3, 256));
  EXPECT_TRUE(std::isnan(float8_value(Float8::e4m3, made[3])));
}

// All numbers of a kind that are not negative, ascending, by the definition of the format.
std::vector<double> numbers_of(int exponents, int mantissas, int bias, double largest) {
  std::vector<double> numbers;
  for (int exponent = 0; exponent < exponents; ++exponent) {
    for (int mantissa = 0; mantissa < mantissas; ++mantissa) {
      double whole = static_cast<double>(mantissa) / mantissas + (exponent > 0 ? 1 : 0);
      numbers.push_back(std::ldexp(whole, std::max(exponent, 1) - bias));
    }
  }
  std::erase_if(numbers, [&](double number) { return number > largest; });
  return numbers;
}

// Rows of so many values, each rounded to the nearest number times the smallest power of two at which the
// largest magnitude fits; of two that are as near, to the one with the even mantissa, which has an even
// place.
void round_rows(const std::vector<double>& numbers, size_t columns, std::vector<double>& values) {
  for (size_t begin = 0; begin < values.size(); begin += columns) {
    double largest = 0;
    for (size_t i = begin; i < begin + columns; ++i) {
      largest = std::max(largest, std::abs(values[i]));
    }
    double scale = std::exp2(std::ceil(std::log2(largest / numbers.back())));
    for (size_t i = begin; i < begin + columns; ++i) {
      double magnitude = std::abs(values[i]) / scale;
      size_t best = 0;
      for (size_t k = 1; k < numbers.size(); ++k) {
        double nearer = std::abs(numbers[k] - magnitude) - std::abs(numbers[best] - magnitude);
        best = nearer < 0 || (nearer == 0 && k % 2 == 0) ? k : best;
      }
      values[i] = std::copysign(numbers[best] * scale, values[i]);
    }
  }
}

struct Products {
  DType dtype;
  int64_t tokens;
  int64_t in = 67;
  int64_t out = 50;  // of two tensors
};

std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// y = 0.5 x W^T + bias and dx += 0.5 dy W.
void expect_products(const Products& c) {
  SCOPED_TRACE(std::string(name_of(c.dtype)) + " " + std::to_string(c.tokens));
  Dims in = {fixed(c.tokens), fixed(c.in)};
  Dims out = {fixed(c.tokens), fixed(c.out)};
  Builder builder("products");
  BufferId x = builder.input("x", c.dtype, in);
  BufferId w =
      builder.weight("w", c.dtype, {fixed(c.out), fixed(c.in)}, {{{"a"}, 0, 17}, {{"b"}, 17, c.out - 17}});
  builder.program().buffer(w).format = kFp8;
  builder.program().buffer(w).format.dtype = c.dtype;
  Buffer weight = builder.buffer(w);
  BufferId bias = builder.weight("bias", c.dtype, {fixed(c.out)}, {});
  BufferId y = builder.temporary("y", c.dtype, out);
  BufferId dy = builder.input("dy", c.dtype, out);
  BufferId dx = builder.input("dx", c.dtype, in);
  builder.append(OpKind::linear, "forward", {x, w, bias}, {y}, LinearAttributes{0.5F});
  builder.append(OpKind::linear_backward_input, "backward", {dy, w}, {dx}, LinearAttributes{0.5F})
      .accumulates = 1;
  OpRunner runner(builder.finish());
  auto random = [&](const char* name, int64_t count, uint64_t seed, float deviation) {
    std::vector<float> values = rounded(random_values(count, seed, deviation), c.dtype);
    runner.set(name, values);
    return values;
  };
  std::vector<double> x_values = doubles(random("x", c.tokens * c.in, 1, 1.0F));
  std::vector<double> dy_values = doubles(random("dy", c.tokens * c.out, 2, 1e-5F));
  std::vector<double> bias_values = doubles(random("bias", c.out, 3, 1.0F));
  std::vector<double> before = doubles(random("dx", c.tokens * c.in, 4, 1e-6F));
  std::vector<float> raw = rounded(random_values(c.out * c.in, 5, 0.02F), c.dtype);
  for (int64_t j = 0; j < c.out; ++j) {  // rows of very different sizes
    for (int64_t i = 0; i < c.in; ++i) {
      raw[static_cast<size_t>(j * c.in + i)] *= std::exp2(static_cast<float>(j % 9 - 4));
    }
  }
  runner.set_bytes("w", coded_weight(weight, raw));
  runner.run();

  std::vector<double> e4m3 = numbers_of(16, 8, 7, 448);
  std::vector<double> e5m2 = numbers_of(31, 4, 15, 57344);
  auto at = [](int64_t row, int64_t width, int64_t column) {
    return static_cast<size_t>(row * width + column);
  };
  std::vector<double> w_values = doubles(raw);
  round_rows(e4m3, static_cast<size_t>(c.in), w_values);
  round_rows(e4m3, static_cast<size_t>(c.in), x_values);
  // What is rounded of a gradient is its product with the scales of the weight's rows.
  std::vector<double> row_scales(static_cast<size_t>(c.out));
  for (int64_t j = 0; j < c.out; ++j) {
    double largest = 0;
    for (int64_t i = 0; i < c.in; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(raw[at(j, c.in, i)])));
    }
    row_scales[static_cast<size_t>(j)] = std::exp2(std::ceil(std::log2(largest / 448)));
  }
  for (size_t i = 0; i < dy_values.size(); ++i) {
    dy_values[i] *= row_scales[i % row_scales.size()];
  }
  round_rows(e5m2, static_cast<size_t>(c.out), dy_values);
  double unit = c.dtype == DType::f32 ? 0x1p-24 : 0x1p-8;
  auto expect_near = [&](float actual, double expected, double magnitude) {
    double bound =
        unit * std::abs(expected) + 0x1p-23 * 8 * magnitude;  // one rounding, and those of fp32 sums
    EXPECT_NEAR(static_cast<double>(actual), expected, 1.01 * bound);
  };
  std::vector<float> forward = runner.get("y");
  std::vector<float> backward = runner.get("dx");
  for (int64_t t = 0; t < c.tokens; ++t) {
    for (int64_t j = 0; j < c.out; ++j) {
      double sum = bias_values[static_cast<size_t>(j)];
      double magnitude = std::abs(sum);
      for (int64_t i = 0; i < c.in; ++i) {
        double term = 0.5 * x_values[at(t, c.in, i)] * w_values[at(j, c.in, i)];
        sum += term;
        magnitude += std::abs(term);
      }
      expect_near(forward[at(t, c.out, j)], sum, magnitude);
    }
    for (int64_t i = 0; i < c.in; ++i) {
      double sum = before[at(t, c.in, i)];
      double magnitude = std::abs(sum);
      for (int64_t j = 0; j < c.out; ++j) {
        double term =
            0.5 * dy_values[at(t, c.out, j)] * w_values[at(j, c.in, i)] / row_scales[static_cast<size_t>(j)];
        sum += term;
        magnitude += std::abs(term);
      }
      expect_near(backward[at(t, c.in, i)], sum, magnitude);
    }
  }
}

TEST(Float8Products, FollowTheFormula) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (int64_t tokens : {1, 3, 70}) {
      expect_products({dtype, tokens});
    }
  }
}

}  // namespace
}  // namespace snug
