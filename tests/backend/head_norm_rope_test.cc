// The norm of heads joined with their rotation: forward against the formula in double, gradients against
// finite differences, and both to the bit against the two ops in turn.
#include <cmath>

#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

constexpr float kEpsilon = 1e-5F;
constexpr float kMagnitude = 1.25F;

struct Case {
  int64_t tokens;
  int64_t q_heads;
  int64_t k_heads;
  int64_t head_dim;
  int64_t other_columns;  // values
  DType activation;
  DType weight;

  int64_t heads() const { return q_heads + k_heads; }
  int64_t columns() const { return heads() * head_dim + other_columns; }
  HeadNormAttributes norm() const { return {q_heads, k_heads, kEpsilon}; }
  HeadNormAttributes joined() const { return {q_heads, k_heads, kEpsilon, kMagnitude}; }
  RopeAttributes rope(bool inverse) const { return {heads(), head_dim, kMagnitude, inverse}; }
};

struct Values {
  std::vector<double> x;
  std::vector<double> wq;
  std::vector<double> wk;
};

std::vector<double> as_double(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

class HeadNormRope : public testing::TestWithParam<Case> {
 protected:
  std::vector<float> values(int64_t count, uint64_t seed, DType dtype) const {
    return rounded(random_values(count, seed), dtype);
  }
  const Case& c() const { return GetParam(); }
  std::vector<float> x() const { return values(c().tokens * c().columns(), 1, c().activation); }
  std::vector<float> dy() const { return values(c().tokens * c().columns(), 2, c().activation); }
  std::vector<float> wq() const { return values(c().head_dim, 3, c().weight); }
  std::vector<float> wk() const { return values(c().head_dim, 4, c().weight); }
  std::vector<int64_t> positions() const { return random_ids(c().tokens, 5, 5000); }
  std::vector<float> frequencies() const {
    std::vector<float> all;
    for (int64_t i = 0; i < c().head_dim / 2; ++i) {
      all.push_back(std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(c().head_dim)));
    }
    return all;
  }

  // [T, pairs]. An angle is a float product, as Hugging Face makes it; all else is exact.
  void SetUp() override {
    for (int64_t position : positions()) {
      for (float frequency : frequencies()) {
        angles_.push_back(static_cast<double>(static_cast<float>(position) * frequency));
      }
    }
  }

  std::vector<double> in_double(const Values& v) const {
    std::vector<double> y = v.x;
    int64_t half = c().head_dim / 2;
    for (int64_t token = 0; token < c().tokens; ++token) {
      for (int64_t head = 0; head < c().heads(); ++head) {
        const std::vector<double>& weight = head < c().q_heads ? v.wq : v.wk;
        double* at = y.data() + token * c().columns() + head * c().head_dim;
        double squares = 0;
        for (int64_t i = 0; i < c().head_dim; ++i) {
          squares += at[i] * at[i];
        }
        double scale =
            1 / std::sqrt(squares / static_cast<double>(c().head_dim) + static_cast<double>(kEpsilon));
        for (int64_t i = 0; i < half; ++i) {
          double low = at[i] * scale * weight[static_cast<size_t>(i)];
          double high = at[i + half] * scale * weight[static_cast<size_t>(i + half)];
          double angle = angles_[static_cast<size_t>(token * half + i)];
          double cosine = std::cos(angle) * static_cast<double>(kMagnitude);
          double sine = std::sin(angle) * static_cast<double>(kMagnitude);
          at[i] = low * cosine - high * sine;
          at[i + half] = high * cosine + low * sine;
        }
      }
    }
    return y;
  }

  // Of sum(y * dy), by one of the members of Values.
  std::vector<double> difference_quotients(std::vector<double> Values::*member) const {
    Values point{as_double(x()), as_double(wq()), as_double(wk())};
    std::vector<float> factors = dy();
    auto objective = [&] {
      std::vector<double> y = in_double(point);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        sum += y[i] * static_cast<double>(factors[i]);
      }
      return sum;
    };
    std::vector<double> gradient;
    for (double& varied : point.*member) {
      constexpr double kStep = 1e-5;
      double kept = varied;
      varied = kept + kStep;
      double above = objective();
      varied = kept - kStep;
      gradient.push_back((above - objective()) / (2 * kStep));
      varied = kept;
    }
    return gradient;
  }

  struct Inputs {
    BufferId x, dy, wq, wk, positions, frequencies;
  };
  Inputs add_inputs(Builder& builder) const {
    return {builder.input("x", c().activation, dims()),
            builder.input("dy", c().activation, dims()),
            builder.weight("wq", c().weight, {fixed(c().head_dim)}, {}),
            builder.weight("wk", c().weight, {fixed(c().head_dim)}, {}),
            builder.input("positions", DType::i32, {tokens(c().tokens + 2)}),
            builder.input("frequencies", DType::f32, {fixed(c().head_dim / 2)})};
  }
  // Some rows more than are used.
  Dims dims() const { return {tokens(c().tokens + 2), fixed(c().columns())}; }
  BufferId gradient(Builder& builder, const std::string& name) const {
    return builder.persistent(name, DType::f32, {fixed(c().head_dim)}, Role::gradients);
  }

  OpRunner run(Builder& builder) const {
    OpRunner runner(builder.finish());
    runner.set("x", x());
    runner.set("dy", dy());
    runner.set("wq", wq());
    runner.set("wk", wk());
    runner.set_ints("positions", positions());
    runner.set("frequencies", frequencies());
    for (const Buffer& buffer : runner.program().buffers) {
      if (buffer.role == Role::gradients) {
        runner.set(buffer.name, before());
      }
    }
    runner.run(at_tokens(c().tokens));
    return runner;
  }
  std::vector<float> before() const { return random_values(c().head_dim, 6); }

 private:
  std::vector<double> angles_;
};

TEST_P(HeadNormRope, ForwardFollowsTheFormula) {
  Builder builder("forward");
  Inputs in = add_inputs(builder);
  BufferId y = builder.temporary("y", c().activation, dims());
  builder.append(OpKind::head_norm_rope, "joined", {in.x, in.wq, in.wk, in.positions, in.frequencies}, {y},
                 c().joined());
  OpRunner runner = run(builder);
  std::vector<double> expected = in_double({as_double(x()), as_double(wq()), as_double(wk())});
  // Both numbers of a pair are rounded before the weight and behind it, by 2^-8 of them each time; a turn
  // adds up to as much as the pair is long, and that is at most sqrt(2) times the largest result.
  double largest = 0;
  for (double value : expected) {
    largest = std::max(largest, std::abs(value));
  }
  double roundings = c().activation == DType::bf16 ? 2 * 0x1p-8 * std::sqrt(2.0) * largest : 0;
  expect_close(runner.get("y"), expected, tolerance_of(c().activation) + roundings);
}

// In bf16 the gradient is rounded when it was turned back: the two ops in turn say how.
TEST_P(HeadNormRope, BackwardMatchesFiniteDifferences) {
  if (c().activation == DType::bf16) {
    return;
  }
  Builder builder("backward");
  Inputs in = add_inputs(builder);
  BufferId dx = builder.temporary("dx", c().activation, dims());
  builder
      .append(OpKind::head_norm_rope_backward, "joined",
              {in.x, in.wq, in.wk, in.dy, in.positions, in.frequencies},
              {dx, gradient(builder, "dwq"), gradient(builder, "dwk")}, c().joined())
      .accumulates = 2;  // dwq alone
  OpRunner runner = run(builder);
  constexpr double kTolerance = 1e-5;
  expect_close(runner.get("dx"), difference_quotients(&Values::x), kTolerance);
  std::vector<double> dwq = difference_quotients(&Values::wq);
  for (size_t i = 0; i < dwq.size(); ++i) {
    dwq[i] += static_cast<double>(before()[i]);
  }
  expect_close(runner.get("dwq"), dwq, kTolerance);
  expect_close(runner.get("dwk"), difference_quotients(&Values::wk), kTolerance);
}

TEST_P(HeadNormRope, HasTheBitsOfTheTwoOpsInTurn) {
  Builder builder("both");
  Inputs in = add_inputs(builder);
  auto temporary = [&](const char* name) { return builder.temporary(name, c().activation, dims()); };
  BufferId normed = temporary("normed");
  BufferId turned_back = temporary("turned_back");
  builder.append(OpKind::head_norm, "norm", {in.x, in.wq, in.wk}, {normed}, c().norm());
  builder.append(OpKind::rope, "rope", {normed, in.positions, in.frequencies}, {temporary("y")},
                 c().rope(false));
  builder.append(OpKind::rope, "back", {in.dy, in.positions, in.frequencies}, {turned_back}, c().rope(true));
  builder
      .append(OpKind::head_norm_backward, "gradient", {in.x, in.wq, in.wk, turned_back},
              {temporary("dx"), gradient(builder, "dwq"), gradient(builder, "dwk")}, c().norm())
      .accumulates = 6;
  builder.append(OpKind::head_norm_rope, "joined", {in.x, in.wq, in.wk, in.positions, in.frequencies},
                 {temporary("joined_y")}, c().joined());
  builder
      .append(OpKind::head_norm_rope_backward, "joined gradient",
              {in.x, in.wq, in.wk, in.dy, in.positions, in.frequencies},
              {temporary("joined_dx"), gradient(builder, "joined_dwq"), gradient(builder, "joined_dwk")},
              c().joined())
      .accumulates = 6;
  OpRunner runner = run(builder);
  for (const char* name : {"y", "dx", "dwq", "dwk"}) {
    EXPECT_EQ(runner.bytes(std::string("joined_") + name), runner.bytes(name)) << name;
  }
}

TEST_P(HeadNormRope, WorksInPlace) {
  Builder builder("in place");
  Inputs in = add_inputs(builder);
  BufferId x = builder.persistent("y", c().activation, dims(), Role::activations);
  BufferId other = builder.temporary("other", c().activation, dims());
  builder.append(OpKind::copy, "copy", {in.x}, {x});
  builder.append(OpKind::head_norm_rope, "joined", {in.x, in.wq, in.wk, in.positions, in.frequencies},
                 {other}, c().joined());
  builder.append(OpKind::head_norm_rope, "in place", {x, in.wq, in.wk, in.positions, in.frequencies}, {x},
                 c().joined());
  OpRunner runner = run(builder);
  EXPECT_EQ(runner.get("y"), runner.get("other"));
}

INSTANTIATE_TEST_SUITE_P(Sizes, HeadNormRope,
                         testing::Values(Case{1, 1, 1, 2, 0, DType::f32, DType::f32},
                                         Case{7, 3, 1, 6, 5, DType::f32, DType::f32},
                                         Case{37, 2, 2, 10, 20, DType::f32, DType::bf16},
                                         Case{5, 4, 2, 16, 32, DType::bf16, DType::bf16},
                                         Case{3, 1, 1, 1026, 3, DType::bf16, DType::f32}));

}  // namespace
}  // namespace snug
