// Rotary embedding against its definition, back and forth, and at far positions.
#include <cmath>

#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

std::vector<float> frequencies_of(int64_t head_dim) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies.push_back(static_cast<float>(
        1.0 / std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim))));
  }
  return frequencies;
}

struct RopeCase {
  int64_t tokens = 1;
  int64_t columns = 0;
  RopeAttributes attributes;
  DType dtype = DType::f32;
  bool accumulate = false;
};

OpRunner make_runner(const RopeCase& c) {
  Builder builder("rope");
  BufferId x = builder.input("x", c.dtype, {tokens(c.tokens), fixed(c.columns)});
  BufferId positions = builder.input("positions", DType::i32, {tokens(c.tokens)});
  BufferId frequencies = builder.input("frequencies", DType::f32, {fixed(c.attributes.head_dim / 2)});
  BufferId y = builder.input("y", c.dtype, {tokens(c.tokens), fixed(c.columns)});
  Op& op = builder.append(OpKind::rope, "rope", {x, positions, frequencies}, {y}, c.attributes);
  op.accumulates = c.accumulate ? 1 : 0;
  OpRunner runner(builder.finish());
  runner.set("frequencies", frequencies_of(c.attributes.head_dim));
  return runner;
}

// By complex numbers: (x[i] + i x[i + half]) * e^(i angle) * magnitude.
std::vector<double> expected_of(const RopeCase& c, const std::vector<float>& x,
                                const std::vector<int64_t>& positions) {
  std::vector<double> y(x.begin(), x.end());
  int64_t half = c.attributes.head_dim / 2;
  std::vector<float> frequencies = frequencies_of(c.attributes.head_dim);
  for (int64_t t = 0; t < c.tokens; ++t) {
    for (int64_t head = 0; head < c.attributes.rotated_heads; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        auto at = static_cast<size_t>(t * c.columns + head * c.attributes.head_dim + i);
        auto other = at + static_cast<size_t>(half);
        // The angle is a float product, as Hugging Face makes it; only then does precision matter no more.
        float angle =
            static_cast<float>(positions[static_cast<size_t>(t)]) * frequencies[static_cast<size_t>(i)];
        double turn = c.attributes.inverse ? -static_cast<double>(angle) : static_cast<double>(angle);
        auto magnitude = static_cast<double>(c.attributes.magnitude);
        auto low = static_cast<double>(x[at]);
        auto high = static_cast<double>(x[other]);
        y[at] = magnitude * (low * std::cos(turn) - high * std::sin(turn));
        y[other] = magnitude * (low * std::sin(turn) + high * std::cos(turn));
      }
    }
  }
  return y;
}

TEST(Rope, FollowsTheDefinition) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (bool inverse : {false, true}) {
      for (bool accumulate : {false, true}) {
        RopeCase c{.tokens = 7,
                   .columns = 3 * 6 + 5,
                   .attributes = {.rotated_heads = 3, .head_dim = 6, .magnitude = 1.25F, .inverse = inverse},
                   .dtype = dtype,
                   .accumulate = accumulate};
        OpRunner runner = make_runner(c);
        std::vector<float> x = rounded(random_values(c.tokens * c.columns, 11), dtype);
        std::vector<float> before = rounded(random_values(c.tokens * c.columns, 12), dtype);
        std::vector<int64_t> positions = {0, 1, 2, 100, 4095, 131071, 77777};
        runner.set("x", x);
        runner.set("y", before);
        runner.set_ints("positions", positions);
        runner.run();
        std::vector<double> expected = expected_of(c, x, positions);
        for (size_t i = 0; accumulate && i < expected.size(); ++i) {
          expected[i] += static_cast<double>(before[i]);
        }
        expect_close(runner.get("y"), expected, tolerance_of(dtype));
      }
    }
  }
}

// Heads wider than any table of angles that a kernel might keep.
TEST(Rope, TurnsHeadsOfAnyWidth) {
  for (int64_t head_dim : {1022, 1026, 4098}) {
    RopeCase c{
        .tokens = 3, .columns = 2 * head_dim + 1, .attributes = {.rotated_heads = 2, .head_dim = head_dim}};
    OpRunner runner = make_runner(c);
    std::vector<float> x = random_values(c.tokens * c.columns, 31);
    std::vector<int64_t> positions = {1, 50, 4095};
    runner.set("x", x);
    runner.set_ints("positions", positions);
    runner.run();
    expect_close(runner.get("y"), expected_of(c, x, positions), tolerance_of(DType::f32));
  }
}

TEST(Rope, TurningBackReturnsTheInput) {
  RopeCase forth{.tokens = 9, .columns = 40, .attributes = {.rotated_heads = 2, .head_dim = 16}};
  RopeCase back = forth;
  back.attributes.inverse = true;
  std::vector<float> x = random_values(forth.tokens * forth.columns, 21);
  std::vector<int64_t> positions = {0, 5, 17, 131072, 9999, 1, 2, 3, 65536};
  OpRunner first = make_runner(forth);
  first.set("x", x);
  first.set_ints("positions", positions);
  first.run();
  OpRunner second = make_runner(back);
  second.set("x", first.get("y"));
  second.set_ints("positions", positions);
  second.run();
  expect_close(second.get("y"), x, 1e-6);
}

TEST(Rope, WorksInPlace) {
  Builder builder("rope");
  BufferId x = builder.persistent("x", DType::f32, {tokens(3), fixed(8)}, Role::activations);
  BufferId positions = builder.input("positions", DType::i32, {tokens(3)});
  BufferId frequencies = builder.input("frequencies", DType::f32, {fixed(2)});
  RopeCase c{.tokens = 3, .columns = 8, .attributes = {.rotated_heads = 2, .head_dim = 4}};
  builder.append(OpKind::rope, "rope", {x, positions, frequencies}, {x}, c.attributes);
  OpRunner runner(builder.finish());
  std::vector<float> values = random_values(24, 5);
  runner.set("x", values);
  runner.set_ints("positions", {3, 1, 2});
  runner.set("frequencies", frequencies_of(4));
  runner.run();
  expect_close(runner.get("x"), expected_of(c, values, {3, 1, 2}), 1e-6);
}

}  // namespace
}  // namespace snug
