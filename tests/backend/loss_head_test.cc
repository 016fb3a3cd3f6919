// The chunked head and loss against log-softmax in double: ignored targets, rows for some tokens only, chunk
// sizes, dtypes.
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

constexpr int64_t kVocabulary = 67;
constexpr int64_t kWidth = 24;
constexpr float kScale = 0.125F;

// Logits are sums of kWidth products of unit size, up to four times the root of that; the relative error of a
// probability is the absolute error of its logit.
double logit_error() {
  return fp32_error(kWidth);
}
double probability_error() {
  return 4 * std::sqrt(static_cast<double>(kWidth)) * logit_error();
}

struct Case {
  int64_t tokens;
  int64_t chunk;
  int ignored;  // 0: no target, 1: every third, 2: all but the last, 3: all
  DType activation;
  DType weight;
};

// Which tokens the head is given: every one, those with a target, or these and some rows that are no token.
enum class Rows : uint8_t { all, with_target, padded };
constexpr std::array kRows = {Rows::all, Rows::with_target, Rows::padded};

struct Expected {
  double loss = 0;
  std::vector<double> dx;
  std::vector<double> dweight;
};

class LossHeadTest : public testing::TestWithParam<Case> {
 protected:
  std::vector<float> x() const {
    return rounded(random_values(GetParam().tokens * kWidth, 1), GetParam().activation);
  }
  std::vector<float> w() const { return rounded(random_values(kVocabulary * kWidth, 2), GetParam().weight); }
  std::vector<int64_t> targets() const {
    std::vector<int64_t> ids = random_ids(GetParam().tokens, 3, kVocabulary);
    for (size_t t = 0; t < ids.size(); ++t) {
      bool ignored = GetParam().ignored == 3 || (GetParam().ignored == 2 && t + 1 < ids.size()) ||
                     (GetParam().ignored == 1 && t % 3 == 1);
      if (ignored) {
        ids[t] = t % 2 == 0 ? -100 : -1;
      }
    }
    return ids;
  }

  Expected expected() const {
    Expected result;
    std::vector<float> inputs = x();
    std::vector<float> weights = w();
    std::vector<int64_t> ids = targets();
    result.dx.resize(inputs.size());
    result.dweight.resize(weights.size());
    for (size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] < 0) {
        continue;
      }
      std::vector<double> logits(kVocabulary);
      double sum = 0;
      for (size_t v = 0; v < kVocabulary; ++v) {
        for (size_t d = 0; d < kWidth; ++d) {
          logits[v] +=
              static_cast<double>(inputs[t * kWidth + d]) * static_cast<double>(weights[v * kWidth + d]);
        }
        sum += std::exp(logits[v]);
      }
      result.loss += std::log(sum) - logits[static_cast<size_t>(ids[t])];
      for (size_t v = 0; v < kVocabulary; ++v) {
        double onehot = static_cast<int64_t>(v) == ids[t] ? 1.0 : 0.0;
        double dlogit = (std::exp(logits[v]) / sum - onehot) * static_cast<double>(kScale);
        for (size_t d = 0; d < kWidth; ++d) {
          result.dx[t * kWidth + d] += dlogit * static_cast<double>(weights[v * kWidth + d]);
          result.dweight[v * kWidth + d] += dlogit * static_cast<double>(inputs[t * kWidth + d]);
        }
      }
    }
    return result;
  }

  struct Ids {
    std::vector<BufferId> inputs;
    BufferId loss;
  };
  Ids add_inputs(Builder& builder) const {
    auto [count, chunk, ignored, activation, weight] = GetParam();
    return {{builder.input("x", activation, {tokens(count + 2), fixed(kWidth)}),
             builder.weight("w", weight, {fixed(kVocabulary), fixed(kWidth)}, {}),
             builder.input("targets", DType::i32, {target_rows(count + 2)}),
             builder.input("rows", DType::i32, {target_rows(count + 2)}),
             builder.input("scale", DType::f32, {fixed(1)})},
            builder.temporary("loss", DType::f64, {fixed(1)})};
  }
  // Returns the sizes to run at.
  Extents set_inputs(OpRunner& runner, Rows rows, const std::vector<int64_t>& targets) const {
    runner.set("x", x());
    runner.set("w", w());
    runner.set("scale", {kScale});
    std::vector<int64_t> row_tokens;
    std::vector<int64_t> row_targets;
    for (size_t t = 0; t < targets.size(); ++t) {
      if (rows == Rows::all || targets[t] >= 0) {
        row_tokens.push_back(static_cast<int64_t>(t));
        row_targets.push_back(targets[t]);
      }
    }
    if (rows == Rows::padded && row_tokens.size() < targets.size()) {
      row_tokens.push_back(-1);
      row_targets.push_back(-100);
    }
    runner.set_ints("targets", row_targets);
    runner.set_ints("rows", row_tokens);
    return at_tokens(GetParam().tokens, std::ssize(row_tokens));
  }
  Extents set_inputs(OpRunner& runner, Rows rows) const { return set_inputs(runner, rows, targets()); }
};

TEST_P(LossHeadTest, LossIsTheUnscaledSum) {
  Builder builder("loss");
  Ids ids = add_inputs(builder);
  LossAttributes attributes{GetParam().chunk};
  builder.append(OpKind::loss_head, "first", ids.inputs, {ids.loss}, attributes);
  builder.append(OpKind::loss_head, "again", ids.inputs, {ids.loss}, attributes).accumulates = 1;
  for (Rows rows : kRows) {
    OpRunner runner(builder.program());
    runner.run(set_inputs(runner, rows));
    expect_close(runner.get("loss"), std::vector<double>{2 * expected().loss}, logit_error());
  }
}

// Every other target is the one with the largest logit, in double, and the others are not.
TEST_P(LossHeadTest, CountsTheTargetsWithTheLargestLogit) {
  std::vector<float> inputs = x();
  std::vector<float> weights = w();
  std::vector<int64_t> ids = targets();
  int64_t hits = 0;
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0) {
      continue;
    }
    std::vector<double> logits(kVocabulary);
    for (size_t v = 0; v < kVocabulary; ++v) {
      for (size_t d = 0; d < kWidth; ++d) {
        logits[v] +=
            static_cast<double>(inputs[t * kWidth + d]) * static_cast<double>(weights[v * kWidth + d]);
      }
    }
    auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    bool is_hit = t % 2 == 0;
    ids[t] = is_hit ? largest : (largest + 1) % kVocabulary;
    hits += is_hit ? 1 : 0;
  }
  Builder builder("loss");
  Ids buffers = add_inputs(builder);
  BufferId counted = builder.persistent("hits", DType::f64, {fixed(1)}, Role::batch);
  builder
      .append(OpKind::loss_head, "loss", buffers.inputs, {buffers.loss, counted},
              LossAttributes{GetParam().chunk})
      .accumulates = 2;
  for (Rows rows : kRows) {
    OpRunner runner(builder.program());
    Extents extents = set_inputs(runner, rows, ids);
    runner.set_double("hits", 3);
    runner.run(extents);
    EXPECT_EQ(runner.get_double("hits"), static_cast<double>(3 + hits));
  }
}

// Of equal logits greedy decoding takes the first, and so a model that says nothing is not always right.
TEST(LossHead, OfEqualLogitsTheFirstCounts) {
  Builder builder("loss");
  BufferId x = builder.input("x", DType::f32, {fixed(3), fixed(2)});
  BufferId w = builder.weight("w", DType::f32, {fixed(4), fixed(2)}, {});
  BufferId targets = builder.input("targets", DType::i32, {fixed(3)});
  BufferId rows = builder.input("rows", DType::i32, {fixed(3)});
  BufferId scale = builder.input("scale", DType::f32, {fixed(1)});
  BufferId loss = builder.persistent("loss", DType::f64, {fixed(1)}, Role::batch);
  BufferId hits = builder.persistent("hits", DType::f64, {fixed(1)}, Role::batch);
  builder.append(OpKind::loss_head, "loss", {x, w, targets, rows, scale}, {loss, hits}, LossAttributes{2})
      .accumulates = 3;
  OpRunner runner(builder.finish());
  runner.set("x", {1, 2, 1, 2, 1, 2});
  runner.set("w", {0, 1, 1, 1, 1, 1, 0, 0});  // logits 2, 3, 3, 0
  runner.set("scale", {1});
  runner.set_ints("targets", {1, 2, 0});
  runner.set_ints("rows", {0, 1, 2});
  runner.set_double("loss", 0);
  runner.set_double("hits", 0);
  runner.run({});
  EXPECT_EQ(runner.get_double("hits"), 1);
}

struct GradientWish {
  Rows rows;
  bool accumulate;
  bool dx;
  bool dw;
};
std::vector<GradientWish> gradient_wishes() {
  std::vector<GradientWish> wishes;
  for (Rows rows : kRows) {
    for (bool accumulate : {false, true}) {
      wishes.push_back({rows, accumulate, true, true});
      wishes.push_back({rows, accumulate, false, true});
      wishes.push_back({rows, accumulate, true, false});
    }
  }
  return wishes;
}

TEST_P(LossHeadTest, GradientOfInputAndWeight) {
  auto [count, chunk, ignored, activation, weight] = GetParam();
  for (const GradientWish& wish : gradient_wishes()) {
    Builder builder("loss");
    Ids ids = add_inputs(builder);
    BufferId dx = builder.temporary("dx", activation, {tokens(count + 2), fixed(kWidth)});
    BufferId dw = builder.persistent("dw", DType::f32, {fixed(kVocabulary), fixed(kWidth)}, Role::gradients);
    builder
        .append(OpKind::loss_head_gradient, "loss", ids.inputs,
                {ids.loss, wish.dx ? dx : kNoBuffer, wish.dw ? dw : kNoBuffer}, LossAttributes{chunk})
        .accumulates = wish.accumulate ? 4 : 0;
    OpRunner runner(builder.finish());
    Extents extents = set_inputs(runner, wish.rows);
    std::vector<float> before = random_values(kVocabulary * kWidth, 4);
    runner.set("dw", before);
    runner.run(extents);
    Expected wanted = expected();
    expect_close(runner.get("loss"), std::vector<double>{wanted.loss}, logit_error());
    for (size_t i = 0; wish.accumulate && i < before.size(); ++i) {
      wanted.dweight[i] += static_cast<double>(before[i]);
    }
    if (wish.dx) {
      expect_close(runner.get("dx"), wanted.dx, probability_error() + tolerance_of(activation), kScale);
    }
    if (wish.dw) {
      expect_close(runner.get("dw"), wanted.dweight, probability_error() + tolerance_of(DType::f32));
    } else {
      EXPECT_EQ(runner.get("dw"), before);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Chunks, LossHeadTest,
    testing::Values(Case{1, 1, 0, DType::f32, DType::f32}, Case{7, 1, 1, DType::f32, DType::f32},
                    Case{7, 5, 0, DType::f32, DType::bf16}, Case{33, 5, 1, DType::f32, DType::f32},
                    Case{33, 5, 1, DType::bf16, DType::bf16}, Case{33, 100, 1, DType::bf16, DType::f32},
                    Case{33, 100, 0, DType::f32, DType::f32}, Case{33, 8, 2, DType::f32, DType::f32},
                    Case{33, 5, 3, DType::f32, DType::f32}));

// Large logits must neither overflow nor lose the loss.
TEST(LossHead, StaysFiniteOnLargeLogits) {
  Builder builder("loss");
  BufferId x = builder.input("x", DType::f32, {tokens(2), fixed(1)});
  BufferId w = builder.weight("w", DType::f32, {fixed(3), fixed(1)}, {});
  BufferId targets = builder.input("targets", DType::i32, {tokens(2)});
  BufferId rows = builder.input("rows", DType::i32, {tokens(2)});
  BufferId scale = builder.input("scale", DType::f32, {fixed(1)});
  BufferId loss = builder.temporary("loss", DType::f64, {fixed(1)});
  BufferId dx = builder.temporary("dx", DType::f32, {tokens(2), fixed(1)});
  builder.append(OpKind::loss_head_gradient, "loss", {x, w, targets, rows, scale}, {loss, dx, kNoBuffer},
                 LossAttributes{2});
  OpRunner runner(builder.finish());
  runner.set("x", {1.0F, -1.0F});
  runner.set("w", {1000.0F, 0.0F, -1000.0F});
  runner.set_ints("targets", {2, 2});
  runner.set_ints("rows", {0, 1});
  runner.set("scale", {1.0F});
  runner.run();
  // Token 0: logits (1000, 0, -1000), target -1000: loss 2000, dlogits (1, 0, -1). Token 1: loss 0.
  EXPECT_EQ(runner.get("loss"), std::vector<float>{2000.0F});
  EXPECT_EQ(runner.get("dx"), (std::vector<float>{2000.0F, 0.0F}));
}

}  // namespace
}  // namespace snug
