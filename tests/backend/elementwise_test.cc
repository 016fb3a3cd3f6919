// Embedding, gates, dropout and the ops that move elements, each against a plain loop.
#include <cmath>
#include <functional>
#include <limits>

#include "base/threads.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

std::vector<double> plus(std::vector<double> values, const std::vector<float>& before, bool accumulate) {
  for (size_t i = 0; accumulate && i < values.size(); ++i) {
    values[i] += static_cast<double>(before[i]);
  }
  return values;
}

TEST(Embedding, LooksUpRows) {
  constexpr int64_t kVocabulary = 11;
  constexpr int64_t kWidth = 13;
  for (DType weight : {DType::f32, DType::bf16}) {
    for (DType activation : {DType::f32, DType::bf16}) {
      Builder builder("embedding");
      BufferId table = builder.weight("table", weight, {fixed(kVocabulary), fixed(kWidth)}, {});
      BufferId ids = builder.input("ids", DType::i32, {tokens(9)});
      BufferId y = builder.temporary("y", activation, {tokens(9), fixed(kWidth)});
      builder.append(OpKind::embedding, "embedding", {table, ids}, {y});
      OpRunner runner(builder.finish());
      std::vector<float> values = random_values(kVocabulary * kWidth, 1);
      std::vector<int64_t> wanted = {10, 0, 3, 3, 7};
      runner.set("table", values);
      runner.set_ints("ids", wanted);
      runner.run(at_tokens(5));
      std::vector<float> expected;
      for (int64_t id : wanted) {
        for (int64_t i = 0; i < kWidth; ++i) {
          expected.push_back(values[static_cast<size_t>(id * kWidth + i)]);
        }
      }
      EXPECT_EQ(runner.get("y"), rounded(rounded(expected, weight), activation));
    }
  }
}

TEST(Embedding, BackwardAddsToTheRowsThatWereUsed) {
  constexpr int64_t kVocabulary = 17;
  constexpr int64_t kWidth = 37;
  constexpr int64_t kTokens = 1031;
  for (DType activation : {DType::f32, DType::bf16}) {
    for (bool accumulate : {true, false}) {
      std::vector<int64_t> ids = random_ids(kTokens, 3, kVocabulary - 2);  // two rows stay unused
      std::vector<float> dy = rounded(random_values(kTokens * kWidth, 4), activation);
      std::vector<float> before = random_values(kVocabulary * kWidth, 5);
      std::vector<double> expected(before.size());
      for (int64_t t = 0; t < kTokens; ++t) {
        for (int64_t i = 0; i < kWidth; ++i) {
          expected[static_cast<size_t>(ids[static_cast<size_t>(t)] * kWidth + i)] +=
              static_cast<double>(dy[static_cast<size_t>(t * kWidth + i)]);
        }
      }
      auto run_with = [&](int threads) {
        set_thread_count(threads);
        Builder builder("embedding");
        BufferId ids_id = builder.input("ids", DType::i32, {tokens(kTokens)});
        BufferId dy_id = builder.input("dy", activation, {tokens(kTokens), fixed(kWidth)});
        BufferId dtable =
            builder.persistent("dtable", DType::f32, {fixed(kVocabulary), fixed(kWidth)}, Role::gradients);
        builder.append(OpKind::embedding_backward, "embedding", {ids_id, dy_id}, {dtable}).accumulates =
            accumulate ? 1 : 0;
        OpRunner runner(builder.finish());
        runner.set_ints("ids", ids);
        runner.set("dy", dy);
        runner.set("dtable", before);
        runner.run();
        set_thread_count(0);
        return runner.get("dtable");
      };
      std::vector<float> alone = run_with(1);
      expect_close(alone, plus(expected, before, accumulate), 1e-5);
      EXPECT_EQ(alone, run_with(3));
    }
  }
}

using Function = std::function<double(double)>;

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu(double x) {
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

class GateTest : public testing::TestWithParam<Activation> {
 protected:
  static Function function() {
    switch (GetParam()) {
      case Activation::silu:
        return silu;
      case Activation::gelu_tanh:
        return gelu_tanh;
      case Activation::gelu:
        break;
    }
    return gelu;
  }
};

constexpr int64_t kGateTokens = 5;
constexpr int64_t kGateWidth = 21;

TEST_P(GateTest, ForwardAndBackwardFollowTheFunction) {
  Function f = function();
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (bool accumulate : {false, true}) {
      Builder builder("gate");
      BufferId x = builder.input("x", dtype, {tokens(kGateTokens), fixed(2 * kGateWidth)});
      BufferId dy = builder.input("dy", dtype, {tokens(kGateTokens), fixed(kGateWidth)});
      BufferId y = builder.input("y", dtype, {tokens(kGateTokens), fixed(kGateWidth)});
      BufferId dx = builder.input("dx", dtype, {tokens(kGateTokens), fixed(2 * kGateWidth)});
      builder.append(OpKind::gated_activation, "gate", {x}, {y}, GateAttributes{GetParam()});
      builder.append(OpKind::gated_activation_backward, "gate", {x, dy}, {dx}, GateAttributes{GetParam()});
      BufferId again = builder.input("again", dtype, {tokens(kGateTokens), fixed(kGateWidth)});
      BufferId beside = builder.input("beside", dtype, {tokens(kGateTokens), fixed(2 * kGateWidth)});
      builder.append(OpKind::gated_activation_backward, "both", {x, dy}, {beside, again},
                     GateAttributes{GetParam()});
      for (Op& op : builder.program().ops) {
        op.accumulates = accumulate ? 1 : 0;
      }
      OpRunner runner(builder.finish());
      std::vector<float> values = random_values(kGateTokens * 2 * kGateWidth, 1, 3.0F);
      values[0] = -200;  // where exp overflows or vanishes
      values[1] = 200;
      values[2] = 0;
      values = rounded(values, dtype);
      std::vector<float> dy_values = rounded(random_values(kGateTokens * kGateWidth, 2), dtype);
      std::vector<float> y_before = rounded(random_values(kGateTokens * kGateWidth, 3), dtype);
      std::vector<float> dx_before = rounded(random_values(kGateTokens * 2 * kGateWidth, 4), dtype);
      runner.set("x", values);
      runner.set("dy", dy_values);
      runner.set("y", y_before);
      runner.set("dx", dx_before);
      runner.set("beside", dx_before);
      runner.run();
      std::vector<double> expected_y(dy_values.size());
      std::vector<double> expected_dx(values.size());
      for (size_t t = 0; t < kGateTokens; ++t) {
        for (size_t i = 0; i < kGateWidth; ++i) {
          size_t gate_at = t * 2 * kGateWidth + i;
          auto gate = static_cast<double>(values[gate_at]);
          auto up = static_cast<double>(values[gate_at + kGateWidth]);
          auto g = static_cast<double>(dy_values[t * kGateWidth + i]);
          expected_y[t * kGateWidth + i] = f(gate) * up;
          expected_dx[gate_at] = g * up * (f(gate + 1e-5) - f(gate - 1e-5)) / 2e-5;
          expected_dx[gate_at + kGateWidth] = g * f(gate);
        }
      }
      expect_close(runner.get("y"), plus(expected_y, y_before, accumulate), tolerance_of(dtype));
      expect_close(runner.get("dx"), plus(expected_dx, dx_before, accumulate), tolerance_of(dtype));
      expect_close(runner.get("again"), expected_y, tolerance_of(dtype));
      EXPECT_EQ(runner.get("beside"), runner.get("dx"));
      if (!accumulate) {
        EXPECT_EQ(runner.get("again"), runner.get("y")) << "the same bits, made again";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, GateTest,
                         testing::Values(Activation::silu, Activation::gelu_tanh, Activation::gelu));

struct Drop {
  float probability = 0.3F;
  uint64_t stream = 5;
  int64_t seed = 42;
  int64_t step = 7;
  int64_t first_token = 0;
  DType dtype = DType::f32;
  int64_t max_tokens = 61;
  bool accumulate = false;
};
constexpr int64_t kDropTokens = 61;
constexpr int64_t kDropColumns = 333;

std::vector<float> dropped(const Drop& drop, const std::vector<float>& x, const std::vector<float>& before) {
  Builder builder("dropout");
  BufferId x_id = builder.input("x", drop.dtype, {tokens(drop.max_tokens), fixed(kDropColumns)});
  BufferId random = builder.input("random", DType::i64, {fixed(3)});
  BufferId y = builder.input("y", drop.dtype, {tokens(drop.max_tokens), fixed(kDropColumns)});
  builder
      .append(OpKind::dropout, "dropout", {x_id, random}, {y},
              DropoutAttributes{drop.probability, drop.stream})
      .accumulates = drop.accumulate ? 1 : 0;
  OpRunner runner(builder.finish());
  runner.set("x", x);
  runner.set("y", before);
  runner.set_ints("random", {drop.seed, drop.step, drop.first_token});
  runner.run(at_tokens(static_cast<int64_t>(x.size()) / kDropColumns));
  return runner.get("y");
}

TEST(Dropout, DropsTheRightShareAndScalesTheRest) {
  std::vector<float> x = random_values(kDropTokens * kDropColumns, 9);
  x[3] = std::numeric_limits<float>::infinity();
  for (float probability : {0.0F, 0.1F, 0.5F, 0.9F}) {
    std::vector<float> y = dropped({.probability = probability}, x, {});
    int64_t zeros = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (y[i] == 0) {
        ++zeros;
      } else {
        EXPECT_FLOAT_EQ(y[i], x[i] / (1 - probability));
      }
    }
    double n = static_cast<double>(x.size());
    auto p = static_cast<double>(probability);
    EXPECT_NEAR(static_cast<double>(zeros) / n, p, 4 * std::sqrt(p * (1 - p) / n));
  }
}

TEST(Dropout, MaskDependsOnlyOnRandomValuesStreamAndElement) {
  std::vector<float> ones(kDropTokens * kDropColumns, 1.0F);
  std::vector<float> mask = dropped({}, ones, {});
  EXPECT_EQ(mask, dropped({}, ones, {}));
  EXPECT_EQ(mask, dropped({.max_tokens = 100}, ones, {}));
  set_thread_count(3);
  EXPECT_EQ(mask, dropped({}, ones, {}));
  set_thread_count(0);
  std::vector<float> narrow = dropped({.dtype = DType::bf16}, ones, {});
  for (size_t i = 0; i < mask.size(); ++i) {
    ASSERT_EQ(mask[i] == 0, narrow[i] == 0) << i;
  }
  // Another seed, step or stream: kept twice with probability 0.7^2, dropped twice with 0.3^2.
  for (const Drop& other : {Drop{.seed = 43}, Drop{.step = 8}, Drop{.stream = 6}}) {
    std::vector<float> second = dropped(other, ones, {});
    int64_t same = 0;
    for (size_t i = 0; i < mask.size(); ++i) {
      same += mask[i] == second[i] ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(same) / static_cast<double>(mask.size()), 0.58, 0.02);
  }
}

TEST(Dropout, ALargerProbabilityOnlyDropsMore) {
  std::vector<float> ones(kDropTokens * kDropColumns, 1.0F);
  std::vector<float> half = dropped({.probability = 0.5F}, ones, {});
  std::vector<float> slightly_more = dropped({.probability = 0.5005F}, ones, {});
  int64_t moved = 0;
  for (size_t i = 0; i < half.size(); ++i) {
    ASSERT_FALSE(half[i] == 0 && slightly_more[i] != 0) << "a larger p brought an element back";
    moved += half[i] != 0 && slightly_more[i] == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(moved), 0.0005 * static_cast<double>(half.size()), 15);
}

TEST(Dropout, MaskIsPhiloxByTheDocumentedRule) {
  // The finaliser of splitmix64 (Steele, Lea and Flood), which spreads the step.
  auto mix = [](uint64_t value) {
    value += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  };
  std::vector<float> ones(kDropTokens * kDropColumns, 1.0F);
  for (int64_t first_token : {int64_t{0}, int64_t{1}, int64_t{3'000'000'000}}) {
    Drop drop{.seed = -3, .first_token = first_token};
    std::vector<float> mask = dropped(drop, ones, {});
    for (size_t i = 0; i < mask.size(); ++i) {
      uint64_t at = static_cast<uint64_t>(first_token) * kDropColumns + i;
      auto words = philox<7>(static_cast<uint64_t>(drop.seed), drop.stream ^ mix(7), at / 8);
      uint32_t half = words[at % 8 / 2] >> (at % 2 == 0 ? 0 : 16) & 0xFFFF;
      ASSERT_EQ(mask[i] != 0, half >= std::lround(drop.probability * 65536)) << i;
    }
  }
}

TEST(Dropout, MaskDoesNotDependOnTheMicroBatch) {
  std::vector<float> ones(kDropTokens * kDropColumns, 1.0F);
  std::vector<float> whole = dropped({}, ones, {});
  std::vector<float> pieces;
  for (auto [first, count] : {std::pair{0, 1}, std::pair{1, 22}, std::pair{23, 38}}) {
    std::vector<float> piece = dropped(
        {.first_token = first}, std::vector<float>(static_cast<size_t>(count * kDropColumns), 1.0F), {});
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(whole, pieces);
}

TEST(Dropout, AddsToWhatIsThere) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    std::vector<float> x = rounded(random_values(kDropTokens * kDropColumns, 1), dtype);
    std::vector<float> before = rounded(random_values(kDropTokens * kDropColumns, 2), dtype);
    std::vector<float> alone = dropped({.dtype = DType::f32}, x, {});
    std::vector<float> added = dropped({.dtype = dtype, .accumulate = true}, x, before);
    std::vector<double> expected(alone.begin(), alone.end());
    expect_close(added, plus(expected, before, true), tolerance_of(dtype));
  }
}

TEST(Moves, AddAndCopy) {
  constexpr int64_t kCount = 40007;
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (bool accumulate : {false, true}) {
      Builder builder("moves");
      BufferId a = builder.input("a", dtype, {fixed(kCount)});
      BufferId b = builder.input("b", dtype, {fixed(kCount)});
      BufferId sum = builder.input("sum", dtype, {fixed(kCount)});
      BufferId wide = builder.input("wide", DType::f32, {fixed(kCount)});
      BufferId narrow = builder.input("narrow", DType::bf16, {fixed(kCount)});
      builder.append(OpKind::add, "add", {a, b}, {sum});
      builder.append(OpKind::copy, "widen", {a}, {wide});
      builder.append(OpKind::copy, "narrow", {a}, {narrow});
      for (Op& op : builder.program().ops) {
        op.accumulates = accumulate ? 1 : 0;
      }
      OpRunner runner(builder.finish());
      std::vector<float> a_values = rounded(random_values(kCount, 1), dtype);
      std::vector<float> b_values = rounded(random_values(kCount, 2), dtype);
      std::vector<float> before = rounded(random_values(kCount, 3), DType::bf16);
      runner.set("a", a_values);
      runner.set("b", b_values);
      for (const char* name : {"sum", "wide", "narrow"}) {
        runner.set(name, before);
      }
      runner.run();
      std::vector<float> copied = a_values;
      std::vector<float> expected_sum = a_values;
      for (size_t i = 0; i < copied.size(); ++i) {
        float base = accumulate ? before[i] : 0.0F;
        copied[i] = base + a_values[i];
        expected_sum[i] = base + (a_values[i] + b_values[i]);
      }
      EXPECT_EQ(runner.get("sum"), rounded(expected_sum, dtype));
      EXPECT_EQ(runner.get("wide"), copied);
      EXPECT_EQ(runner.get("narrow"), rounded(copied, DType::bf16));
    }
  }
}

TEST(Moves, NarrowingRoundsLikeTheReference) {
  Builder builder("moves");
  BufferId x = builder.input("x", DType::f32, {fixed(9)});
  BufferId y = builder.temporary("y", DType::bf16, {fixed(9)});
  builder.append(OpKind::copy, "copy", {x}, {y});
  OpRunner runner(builder.finish());
  float infinity = std::numeric_limits<float>::infinity();
  // Ties go to even; what is past the largest bf16 becomes infinity; subnormals and signs stay.
  runner.set("x", {1.00390625F, 1.01171875F, -0.0F, infinity, 3.39e38F, 1e-40F, -3.4028235e38F, 1.0F,
                   std::numeric_limits<float>::quiet_NaN()});
  runner.run();
  std::vector<float> y_values = runner.get("y");
  EXPECT_EQ(y_values[0], 1.0F);
  EXPECT_EQ(y_values[1], 1.015625F);
  EXPECT_TRUE(std::signbit(y_values[2]));
  EXPECT_EQ(y_values[3], infinity);
  EXPECT_NEAR(y_values[4], 3.39e38, 1e35);
  EXPECT_NEAR(y_values[5], 1e-40, 1e-41);
  EXPECT_EQ(y_values[6], -infinity);
  EXPECT_EQ(y_values[7], 1.0F);
  EXPECT_TRUE(std::isnan(y_values[8]));
}

TEST(Moves, FillReachesEveryOutputAndDtype) {
  Builder builder("moves");
  std::vector<BufferId> outputs = {kNoBuffer};
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    outputs.push_back(builder.temporary(std::string(name_of(dtype)), dtype, {tokens(9), fixed(3)}));
  }
  for (DType dtype : {DType::i32, DType::i64}) {
    outputs.push_back(builder.temporary(std::string(name_of(dtype)), dtype, {tokens(9), fixed(3)}));
  }
  builder.append(OpKind::fill, "fill", {}, outputs, FillAttributes{2});
  OpRunner runner(builder.finish());
  runner.run(at_tokens(5));
  for (const char* name : {"fp32", "bf16", "fp16", "fp64"}) {
    EXPECT_EQ(runner.get(name), std::vector<float>(15, 2.0F)) << name;
  }
  for (const char* name : {"int32", "int64"}) {
    EXPECT_EQ(runner.get_ints(name), std::vector<int64_t>(15, 2)) << name;
  }
}

TEST(Moves, SelectRows) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Builder builder("moves");
    BufferId x = builder.input("x", dtype, {tokens(6), fixed(5)});
    BufferId rows = builder.input("rows", DType::i32, {sequences(3)});
    BufferId y = builder.temporary("y", dtype, {sequences(3), fixed(5)});
    builder.append(OpKind::select_rows, "select", {x, rows}, {y});
    OpRunner runner(builder.finish());
    std::vector<float> values = rounded(random_values(30, 1), dtype);
    runner.set("x", values);
    runner.set_ints("rows", {5, 0, 2});
    runner.run();
    std::vector<float> expected;
    for (int row : {5, 0, 2}) {
      expected.insert(expected.end(), values.begin() + row * 5, values.begin() + row * 5 + 5);
    }
    EXPECT_EQ(runner.get("y"), expected);
  }
}

TEST(Moves, CacheWriteKeepsTheOtherRows) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Builder builder("moves");
    BufferId x = builder.input("x", dtype, {tokens(2), fixed(7)});
    BufferId slots = builder.input("slots", DType::i32, {tokens(2)});
    BufferId cache =
        builder.persistent("cache", dtype, {Dim{Extent::cached_tokens, 5}, fixed(4)}, Role::kv_cache);
    builder.append(OpKind::cache_write, "cache", {x, slots}, {cache}, CacheAttributes{3});
    OpRunner runner(builder.finish());
    std::vector<float> values = rounded(random_values(14, 1), dtype);
    std::vector<float> expected = rounded(random_values(20, 2), dtype);
    runner.set("x", values);
    runner.set("cache", expected);
    runner.set_ints("slots", {4, 1});
    runner.run();
    std::copy_n(values.begin() + 3, 4, expected.begin() + 16);
    std::copy_n(values.begin() + 10, 4, expected.begin() + 4);
    EXPECT_EQ(runner.get("cache"), expected);
  }
}

}  // namespace
}  // namespace snug
