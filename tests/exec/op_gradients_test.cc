// Finite differences: one description of an op yields a program that ends in a loss; its gradients by the
// backward pass must be the slopes of that loss.
#include <gtest/gtest.h>

#include <functional>

#include "compile/backward.h"
#include "ops/table.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

constexpr int64_t kClasses = 11;
constexpr int64_t kEmbeddingWidth = 40;  // wide enough that every token's input row is independent

// Writes a program by hand: trainable weights with random values, inputs made from them, the op under test.
class GradientCase {
 public:
  explicit GradientCase(int64_t token_count) : builder_("gradient_case"), token_count_(token_count) {}

  Builder& builder() { return builder_; }
  Dim token_dim() const { return tokens(token_count_); }
  int64_t token_count() const { return token_count_; }

  BufferId weight(const std::string& name, Dims dims, float deviation = 0.5F, float mean = 0.0F) {
    BufferId id = builder_.persistent(name, DType::f32, std::move(dims), Role::base_weights);
    builder_.program().buffer(id).trainable = true;
    std::vector<float> values = random_values(builder_.buffer(id).max_elements(), id + 100, deviation);
    for (float& value : values) {
      value += mean;
    }
    values_.emplace_back(name, std::move(values));
    return id;
  }

  BufferId integers(const std::string& name, Dims dims, std::vector<int64_t> values) {
    BufferId id = builder_.input(name, DType::i32, std::move(dims));
    integers_.emplace_back(name, std::move(values));
    return id;
  }

  BufferId wide_integers(const std::string& name, Dims dims, std::vector<int64_t> values) {
    BufferId id = integers(name, std::move(dims), std::move(values));
    builder_.program().buffer(id).format = DType::i64;
    return id;
  }

  BufferId constants(const std::string& name, Dims dims, std::vector<float> values) {
    BufferId id = builder_.input(name, DType::f32, std::move(dims));
    values_.emplace_back(name, std::move(values));
    return id;
  }

  // An activation [T, columns] that depends on trainable numbers: fixed random rows times a trainable matrix.
  BufferId activation(const std::string& name, int64_t columns) {
    BufferId rows = constants(name + ".rows", {token_dim(), fixed(kEmbeddingWidth)},
                              random_values(token_count_ * kEmbeddingWidth, columns, 0.3F));
    BufferId matrix = weight(name + ".matrix", {fixed(columns), fixed(kEmbeddingWidth)});
    BufferId y = builder_.temporary(name, DType::f32, {token_dim(), fixed(columns)});
    builder_.append(OpKind::linear, name, {rows, matrix}, {y}, LinearAttributes{});
    return y;
  }

  BufferId temporary(const std::string& name, int64_t columns) {
    return builder_.temporary(name, DType::f32, {token_dim(), fixed(columns)});
  }

  // The scalar: cross-entropy of y against random targets, some of them ignored.
  void finish_with_loss(BufferId y) {
    std::vector<int64_t> target_values = random_ids(token_count_, 5, kClasses);
    if (token_count_ > 2) {
      target_values[1] = -100;
    }
    finish_with_loss(y, all_rows(token_count_), std::move(target_values));
  }

  // Of these tokens alone.
  void finish_with_loss(BufferId y, const std::vector<int64_t>& row_values,
                        const std::vector<int64_t>& target_values) {
    int64_t columns = builder_.buffer(y).dims[1].max;
    BufferId head = weight("head", {fixed(kClasses), fixed(columns)});
    Dim count = target_rows(std::ssize(row_values));
    BufferId targets = integers("targets", {count}, target_values);
    BufferId rows = integers("rows", {count}, row_values);
    BufferId scale = constants("scale", {fixed(1)}, {1.0F});
    BufferId loss = builder_.persistent("loss", DType::f64, {fixed(1)}, Role::batch);
    builder_.append(OpKind::loss_head, "head", {y, head, targets, rows, scale}, {loss}, LossAttributes{3})
        .accumulates = 1;
  }

  void check() {
    Program forward = builder_.finish();
    verify_with_shapes(forward);
    Program backward = add_backward(forward);
    verify_with_shapes(backward);
    OpRunner gradients(backward);
    prepare(gradients);
    for (const Buffer& buffer : backward.buffers) {
      if (buffer.role == Role::gradients) {
        gradients.set(buffer.name, std::vector<float>(static_cast<size_t>(buffer.max_elements()), 0.0F));
      }
    }
    gradients.run();
    OpRunner losses(forward);
    prepare(losses);
    for (const auto& [name, values] : values_) {
      if (forward.buffer(forward.find(name)).trainable) {
        check_weight(name, values, gradients.get(name + ".grad"), losses);
      }
    }
  }

 private:
  void prepare(OpRunner& runner) const {
    for (const auto& [name, values] : values_) {
      runner.set(name, values);
    }
    for (const auto& [name, values] : integers_) {
      runner.set_ints(name, values);
    }
    runner.set_double("loss", 0.0);
  }

  static double loss_with(OpRunner& runner, const std::string& name, const std::vector<float>& values) {
    runner.set(name, values);
    runner.set_double("loss", 0.0);
    runner.run();
    return runner.get_double("loss");
  }

  static void check_weight(const std::string& name, const std::vector<float>& values,
                           const std::vector<float>& gradient, OpRunner& losses) {
    constexpr float kStep = 1e-2F;
    ASSERT_EQ(values.size(), gradient.size());
    // Up to 40 single elements, then three random directions over all of them.
    size_t stride = std::max<size_t>(1, values.size() / 40);
    for (size_t i = 0; i < values.size(); i += stride) {
      std::vector<float> moved = values;
      moved[i] = values[i] + kStep;
      double above = loss_with(losses, name, moved);
      moved[i] = values[i] - kStep;
      double below = loss_with(losses, name, moved);
      double slope = (above - below) / (2.0 * static_cast<double>(kStep));
      EXPECT_NEAR(gradient[i], slope, 2e-3 + 1e-2 * std::abs(slope)) << name << "[" << i << "]";
    }
    for (uint64_t direction_seed = 1; direction_seed <= 3; ++direction_seed) {
      std::vector<float> direction = random_values(static_cast<int64_t>(values.size()), direction_seed);
      double expected = 0;
      std::vector<float> up = values;
      std::vector<float> down = values;
      constexpr float kSmall = 2e-3F;
      for (size_t i = 0; i < values.size(); ++i) {
        expected += static_cast<double>(direction[i]) * static_cast<double>(gradient[i]);
        up[i] += kSmall * direction[i];
        down[i] -= kSmall * direction[i];
      }
      double slope =
          (loss_with(losses, name, up) - loss_with(losses, name, down)) / (2.0 * static_cast<double>(kSmall));
      EXPECT_NEAR(expected, slope, 5e-3 + 1e-2 * std::abs(slope))
          << name << " along direction " << direction_seed;
    }
    losses.set(name, values);
  }

  Builder builder_;
  int64_t token_count_;
  std::vector<std::pair<std::string, std::vector<float>>> values_;
  std::vector<std::pair<std::string, std::vector<int64_t>>> integers_;
};

const std::vector<int64_t> kTokenCounts = {1, 7, 19};

TEST(OpGradients, Embedding) {
  for (int64_t count : kTokenCounts) {
    GradientCase test(count);
    BufferId table = test.weight("table", {fixed(13), fixed(5)});
    BufferId ids = test.integers("ids", {test.token_dim()}, random_ids(count, 3, 13));
    BufferId y = test.temporary("y", 5);
    test.builder().append(OpKind::embedding, "embedding", {table, ids}, {y});
    test.finish_with_loss(y);
    test.check();
  }
}

TEST(OpGradients, LinearWithBiasAndScale) {
  for (int64_t count : kTokenCounts) {
    GradientCase test(count);
    BufferId x = test.activation("x", 9);
    BufferId w = test.weight("w", {fixed(7), fixed(9)});
    BufferId bias = test.weight("bias", {fixed(7)});
    BufferId y = test.temporary("y", 7);
    test.builder().append(OpKind::linear, "linear", {x, w, bias}, {y}, LinearAttributes{});
    test.finish_with_loss(y);
    test.check();
  }
}

// Fewer rows than tokens, the last of them no token.
TEST(OpGradients, LossHeadOfSomeTokens) {
  for (int64_t count : {5, 7, 19}) {
    GradientCase test(count);
    BufferId x = test.activation("x", 9);
    test.finish_with_loss(x, {1, 2, 4, -1}, {3, 10, 0, -100});
    test.check();
  }
}

TEST(OpGradients, RmsNorm) {
  for (int64_t count : kTokenCounts) {
    GradientCase test(count);
    BufferId x = test.activation("x", 9);
    BufferId w = test.weight("w", {fixed(9)}, 0.3F, 1.0F);
    BufferId y = test.temporary("y", 9);
    test.builder().append(OpKind::rms_norm, "norm", {x, w}, {y}, NormAttributes{1e-5F});
    test.finish_with_loss(y);
    test.check();
  }
}

TEST(OpGradients, HeadNorm) {
  for (int64_t count : kTokenCounts) {
    GradientCase test(count);
    BufferId x = test.activation("x", 3 * 4 + 5);  // two query heads, one key head, five columns of values
    BufferId q_weight = test.weight("wq", {fixed(4)}, 0.3F, 1.0F);
    BufferId k_weight = test.weight("wk", {fixed(4)}, 0.3F, 1.0F);
    BufferId y = test.temporary("y", 3 * 4 + 5);
    test.builder().append(OpKind::head_norm, "head_norm", {x, q_weight, k_weight}, {y},
                          HeadNormAttributes{2, 1, 1e-5F});
    test.finish_with_loss(y);
    test.check();
  }
}

TEST(OpGradients, AddSharesOneGradientWithoutMixingItUp) {
  // x feeds a norm and a residual addition, twice over: the pattern of a transformer block.
  GradientCase test(5);
  BufferId x = test.activation("x", 6);
  for (int round = 0; round < 2; ++round) {
    std::string name = "round" + std::to_string(round);
    BufferId w = test.weight(name + ".w", {fixed(6)}, 0.3F, 1.0F);
    BufferId normed = test.temporary(name + ".normed", 6);
    test.builder().append(OpKind::rms_norm, name + ".norm", {x, w}, {normed}, NormAttributes{});
    BufferId matrix = test.weight(name + ".matrix", {fixed(6), fixed(6)});
    BufferId out = test.temporary(name + ".out", 6);
    test.builder().append(OpKind::linear, name + ".linear", {normed, matrix}, {out}, LinearAttributes{});
    BufferId sum = test.temporary(name + ".sum", 6);
    test.builder().append(OpKind::add, name + ".add", {x, out}, {sum});
    x = sum;
  }
  test.finish_with_loss(x);
  test.check();
}

TEST(OpGradients, AddOfAValueThatIsReadAgainLater) {
  // The sum's gradient is still needed when x gets a second contribution: it must be copied or added, not
  // overwritten.
  GradientCase test(4);
  BufferId x = test.activation("x", 6);
  BufferId a = test.activation("a", 6);
  BufferId sum = test.temporary("sum", 6);
  test.builder().append(OpKind::add, "first", {x, a}, {sum});
  BufferId again = test.temporary("again", 6);
  test.builder().append(OpKind::add, "second", {sum, x}, {again});
  test.finish_with_loss(again);
  test.check();
}

TEST(OpGradients, LoraUpOverSeveralParts) {
  for (int64_t count : kTokenCounts) {
    GradientCase test(count);
    BufferId x = test.activation("x", 8);
    BufferId w = test.weight("w", {fixed(10), fixed(8)});
    BufferId y = test.temporary("y", 10);
    test.builder().append(OpKind::linear, "base", {x, w}, {y}, LinearAttributes{});
    // Two of three side-by-side layers are adapted: columns 0..3 and 7..9.
    LoraAttributes attributes{0.7F, 3, {{0, 0, 4}, {7, 4, 3}}};
    BufferId a = test.weight("a", {fixed(6), fixed(8)});
    BufferId b = test.weight("b", {fixed(7), fixed(3)});
    BufferId down = test.temporary("down", 6);
    test.builder().append(OpKind::linear, "down", {x, a}, {down}, LinearAttributes{});
    test.builder().append(OpKind::lora_up, "up", {down, b}, {y}, attributes).accumulates = 1;
    test.finish_with_loss(y);
    test.check();
  }
}

TEST(OpGradients, Dropout) {
  GradientCase test(9);
  BufferId x = test.activation("x", 7);
  BufferId random = test.wide_integers("random", {fixed(3)}, {42, 3, 0});
  BufferId y = test.temporary("y", 7);
  test.builder().append(OpKind::dropout, "dropout", {x, random}, {y}, DropoutAttributes{0.3F, 4});
  test.finish_with_loss(y);
  test.check();
}

TEST(OpGradients, GatedActivations) {
  for (Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::gelu}) {
    for (int64_t count : kTokenCounts) {
      GradientCase test(count);
      BufferId x = test.activation("x", 10);
      BufferId y = test.temporary("y", 5);
      test.builder().append(OpKind::gated_activation, "gate", {x}, {y}, GateAttributes{activation});
      test.finish_with_loss(y);
      test.check();
    }
  }
}

struct AttentionCase {
  std::vector<int64_t> lengths;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  bool causal;
  int64_t window;
};

TEST(OpGradients, RopeAndAttention) {
  const std::vector<AttentionCase> cases = {
      {{1}, 1, 1, 4, true, 0},      {{7}, 2, 1, 6, true, 0},     {{3, 1, 9}, 4, 2, 8, true, 0},
      {{5, 6}, 3, 3, 10, false, 0}, {{12, 2}, 2, 1, 6, true, 3},
  };
  for (const AttentionCase& c : cases) {
    int64_t count = 0;
    std::vector<int64_t> offset_values = {0};
    std::vector<int64_t> position_values;
    for (int64_t length : c.lengths) {
      for (int64_t i = 0; i < length; ++i) {
        position_values.push_back(i);
      }
      count += length;
      offset_values.push_back(count);
    }
    int64_t q_width = c.heads * c.head_dim;
    int64_t kv_width = c.kv_heads * c.head_dim;
    GradientCase test(count);
    BufferId qkv = test.activation("qkv", q_width + 2 * kv_width);
    BufferId positions = test.integers("positions", {test.token_dim()}, position_values);
    BufferId frequencies =
        test.constants("frequencies", {fixed(c.head_dim / 2)}, random_values(c.head_dim / 2, 8, 0.4F));
    BufferId rotated = test.temporary("rotated", q_width + 2 * kv_width);
    test.builder().append(OpKind::rope, "rope", {qkv, positions, frequencies}, {rotated},
                          RopeAttributes{c.heads + c.kv_heads, c.head_dim});
    BufferId q_offsets =
        test.integers("offsets", {offsets(static_cast<int64_t>(offset_values.size()))}, offset_values);
    BufferId o = test.temporary("o", q_width);
    BufferId lse = test.temporary("lse", c.heads);
    AttentionAttributes attributes{.heads = c.heads,
                                   .kv_heads = c.kv_heads,
                                   .head_dim = c.head_dim,
                                   .k_column = q_width,
                                   .v_column = q_width + kv_width,
                                   .scale = 0.6F,
                                   .causal = c.causal,
                                   .window = c.window};
    test.builder().append(OpKind::attention, "attention", {rotated, rotated, q_offsets, q_offsets}, {o, lse},
                          attributes);
    test.finish_with_loss(o);
    test.check();
  }
}

TEST(OpGradients, AttentionWithDropout) {
  constexpr int64_t kWidth = 2 * 6;
  GradientCase test(15);
  BufferId qkv = test.activation("qkv", 2 * kWidth);  // two query heads share one of keys and values
  BufferId sequence_offsets = test.integers("offsets", {offsets(4)}, {0, 3, 4, 15});
  AttentionAttributes attributes{.heads = 2,
                                 .kv_heads = 1,
                                 .head_dim = 6,
                                 .k_column = kWidth,
                                 .v_column = kWidth + 6,
                                 .scale = 0.6F,
                                 .window = 5,
                                 .relative_buckets = 8,
                                 .relative_max_distance = 7,
                                 .dropout = {0.3F, 4}};
  BufferId bias = test.weight("bias", {fixed(8), fixed(2)});
  BufferId random = test.wide_integers("random", {fixed(3)}, {42, 3, 100});
  BufferId o = test.temporary("o", kWidth);
  BufferId lse = test.temporary("lse", 2);
  test.builder().append(OpKind::attention, "attention",
                        {qkv, qkv, sequence_offsets, sequence_offsets, bias, random}, {o, lse}, attributes);
  test.finish_with_loss(o);
  test.check();
}

// Self attention with a bias by distance, and attention from one set of sequences to another.
TEST(OpGradients, AttentionWithRelativeBias) {
  for (bool bidirectional : {true, false}) {
    constexpr int64_t kHeads = 2;
    constexpr int64_t kWidth = kHeads * 5;
    GradientCase test(14);
    BufferId qkv = test.activation("qkv", 3 * kWidth);
    BufferId sequence_offsets = test.integers("offsets", {offsets(4)}, {0, 3, 4, 14});
    AttentionAttributes attributes{.heads = kHeads,
                                   .kv_heads = kHeads,
                                   .head_dim = 5,
                                   .k_column = kWidth,
                                   .v_column = 2 * kWidth,
                                   .causal = !bidirectional,
                                   .relative_buckets = 8,
                                   .relative_max_distance = 7,
                                   .bidirectional_buckets = bidirectional};
    BufferId bias = test.weight("bias", {fixed(8), fixed(kHeads)});
    BufferId o = test.temporary("o", kWidth);
    BufferId lse = test.temporary("lse", kHeads);
    test.builder().append(OpKind::attention, "attention",
                          {qkv, qkv, sequence_offsets, sequence_offsets, bias}, {o, lse}, attributes);
    test.finish_with_loss(o);
    test.check();
  }
}

TEST(OpGradients, CrossAttention) {
  constexpr int64_t kHeads = 2;
  constexpr int64_t kWidth = kHeads * 6;
  GradientCase test(9);
  BufferId q = test.activation("q", kWidth);
  BufferId kv = test.activation("kv", 2 * kWidth);
  BufferId q_offsets = test.integers("q_offsets", {offsets(4)}, {0, 6, 7, 9});
  BufferId kv_offsets = test.integers("kv_offsets", {offsets(4)}, {0, 1, 8, 9});
  AttentionAttributes attributes{
      .heads = kHeads, .kv_heads = kHeads, .head_dim = 6, .v_column = kWidth, .scale = 0.7F, .causal = false};
  BufferId o = test.temporary("o", kWidth);
  BufferId lse = test.temporary("lse", kHeads);
  test.builder().append(OpKind::attention, "attention", {q, kv, q_offsets, kv_offsets}, {o, lse}, attributes);
  test.finish_with_loss(o);
  test.check();
}

}  // namespace
}  // namespace snug
