// Products, LoRA, the loss head and the optimizer, against the CPU, per dtype and at odd sizes.
#include <array>

#include "cuda/lora_case.h"
#include "support/split_values.h"

namespace snug {
namespace {

struct Case {
  int64_t rows;
  int64_t in;
  int64_t out;
  DType dtype;
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(name_of(c.dtype)) + "_" + std::to_string(c.rows) + "x" + std::to_string(c.in) + "x" +
         std::to_string(c.out);
}

class CudaProducts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
  int64_t rows() const { return GetParam().rows; }
  int64_t in() const { return GetParam().in; }
  int64_t out() const { return GetParam().out; }
  DType dtype() const { return GetParam().dtype; }
  Dims dims(int64_t columns) const { return {tokens(rows() + 1), fixed(columns)}; }
  double norm_tolerance() const {
    return dtype() == DType::f32 ? 3e-6 : dtype() == DType::bf16 ? 4e-3 : 5e-4;
  }
};

TEST_P(CudaProducts, LinearAndItsGradients) {
  bool is_bf16 = dtype() == DType::bf16;
  for (uint32_t accumulates : {0U, 3U}) {
    Builder builder("linear");
    BufferId x = builder.input("x", dtype(), dims(in()));
    BufferId w = builder.weight("w", dtype(), {fixed(out()), fixed(in())}, {});
    BufferId bias = builder.weight("bias", dtype(), {fixed(out())}, {});
    BufferId y = builder.input("y", dtype(), dims(out()));
    BufferId plain = builder.temporary("plain", dtype(), dims(out()));
    BufferId dy = builder.input("dy", dtype(), dims(out()));
    BufferId dx = builder.input("dx", dtype(), dims(in()));
    BufferId dw = builder.persistent("dw", DType::f32, {fixed(out()), fixed(in())}, Role::gradients);
    BufferId dbias = builder.persistent("dbias", DType::f32, {fixed(out())}, Role::gradients);
    LinearAttributes attributes{0.5F};
    builder.append(OpKind::linear, "linear", {x, w, bias}, {y}, attributes).accumulates = accumulates & 1U;
    builder.append(OpKind::linear, "plain", {x, w}, {plain}, LinearAttributes{});
    builder.append(OpKind::linear_backward_input, "dx", {dy, w}, {dx}, attributes).accumulates =
        accumulates & 1U;
    builder.append(OpKind::linear_backward_weight, "dw", {dy, x}, {dw, dbias}, attributes).accumulates =
        accumulates;
    BufferId rounded = builder.persistent("rounded", is_bf16 ? DType::bf16 : DType::f32,
                                          {fixed(out()), fixed(in())}, Role::gradients);
    builder.append(OpKind::linear_backward_weight, "rounded", {dy, x}, {rounded, kNoBuffer}, attributes)
        .accumulates = accumulates & 1U;
    OnBoth both(builder.finish());
    uint64_t seed = 1;
    for (const char* name : {"x", "w", "bias", "y", "dy", "dx", "dw", "dbias", "rounded"}) {
      both.randomise(name, seed++);
    }
    both.run(at_tokens(rows()));
    for (const char* name : {"y", "plain", "dx", "dw", "dbias", "rounded"}) {
      both.expect_close_norms(name, norm_tolerance());
    }
  }
}

TEST_P(CudaProducts, LoraPartsOwnTheirColumns) {
  constexpr int64_t kRank = 6;
  int64_t first = out() / 3 + 1;
  int64_t columns = out() + 5;
  for (bool accumulate : {false, true}) {
    Builder builder("lora");
    BufferId down = builder.input("down", dtype(), dims(2 * kRank));
    BufferId b = builder.weight("b", dtype(), {fixed(out()), fixed(kRank)}, {});
    BufferId y = builder.input("y", dtype(), dims(columns));
    BufferId dy = builder.input("dy", dtype(), dims(columns));
    BufferId ddown = builder.input("ddown", dtype(), dims(2 * kRank));
    BufferId db = builder.persistent("db", DType::f32, {fixed(out()), fixed(kRank)}, Role::gradients);
    LoraAttributes attributes{
        2.0F, kRank, {{0, 0, first}, {columns - (out() - first), first, out() - first}}};
    builder.append(OpKind::lora_up, "up", {down, b}, {y}, attributes).accumulates = accumulate ? 1 : 0;
    builder.append(OpKind::lora_up_backward, "backward", {dy, down, b}, {ddown, db}, attributes).accumulates =
        accumulate ? 3 : 0;
    OnBoth both(builder.finish());
    uint64_t seed = 1;
    for (const char* name : {"down", "b", "y", "dy", "ddown", "db"}) {
      both.randomise(name, seed++);
    }
    both.run(at_tokens(rows()));
    for (const char* name : {"y", "ddown", "db"}) {
      both.expect_close_norms(name, norm_tolerance());
    }
  }
}

class CudaLora : public LoraOnCard {};

// Sizes whose rows are aligned: on Hopper kernels of their own take them. All six products of an adapter,
// once written and once added.
TEST_P(CudaLora, EveryProductOfAnAdapter) {
  const LoraCase& c = GetParam();
  constexpr int64_t kIn = 1544;
  LoraAttributes attributes = c.attributes();
  Dim stacked = fixed(c.stacked());
  Dim b_rows = fixed(c.b_rows());
  Dims x_dims = {tokens(c.rows + 1), fixed(kIn)};
  Dims down_dims = {tokens(c.rows + 1), stacked};
  Dims y_dims = {tokens(c.rows + 1), fixed(c.columns())};
  for (uint32_t accumulates : {0U, 1U}) {
    Builder builder("lora");
    BufferId x = builder.input("x", c.dtype, x_dims);
    BufferId a = builder.weight("a", c.dtype, {stacked, fixed(kIn)}, {});
    BufferId b = builder.weight("b", c.dtype, {b_rows, fixed(c.rank)}, {});
    BufferId given = builder.input("given", c.dtype, down_dims);
    BufferId down = builder.input("down", c.dtype, down_dims);
    BufferId y = builder.input("y", c.dtype, y_dims);
    BufferId dy = builder.input("dy", c.dtype, y_dims);
    BufferId ddown = builder.input("ddown", c.dtype, down_dims);
    BufferId dx = builder.input("dx", c.dtype, x_dims);
    BufferId da = builder.persistent("da", DType::f32, {stacked, fixed(kIn)}, Role::gradients);
    BufferId db = builder.persistent("db", DType::f32, {b_rows, fixed(c.rank)}, Role::gradients);
    LinearAttributes linear{0.5F};
    builder.append(OpKind::linear, "down", {x, a}, {down}, linear).accumulates = accumulates;
    builder.append(OpKind::lora_up, "up", {given, b}, {y}, attributes).accumulates = accumulates;
    builder.append(OpKind::lora_up_backward, "backward", {dy, given, b}, {ddown, db}, attributes)
        .accumulates = 3 * accumulates;
    builder.append(OpKind::linear_backward_weight, "da", {given, x}, {da, kNoBuffer}, linear).accumulates =
        accumulates;
    builder.append(OpKind::linear_backward_input, "dx", {given, a}, {dx}, linear).accumulates = accumulates;
    OnBoth both(builder.finish());
    uint64_t seed = 1;
    for (const char* name : {"x", "a", "b", "given", "down", "y", "dy", "ddown", "dx", "da", "db"}) {
      both.randomise(name, seed++);
    }
    both.run(at_tokens(c.rows));
    for (const char* name : {"down", "y", "ddown", "dx", "da", "db"}) {
      both.expect_close_norms(name, c.dtype == DType::f32 ? 3e-6 : c.dtype == DType::bf16 ? 4e-3 : 5e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaLora,
    testing::Values(LoraCase{1, 8, {8}, DType::bf16}, LoraCase{130, 16, {136, 24, 264}, DType::bf16},
                    LoraCase{700, 128, {3584, 512, 512}, DType::bf16},
                    LoraCase{3000, 128, {1032, 1032}, DType::bf16}, LoraCase{2048, 64, {2000}, DType::f16},
                    LoraCase{65, 72, {128, 128}, DType::f16}, LoraCase{300, 64, {1000, 8, 8, 40}, DType::f16},
                    LoraCase{129, 32, {16, 16, 16, 16, 16}, DType::bf16},
                    LoraCase{33, 256, {2128, 72}, DType::bf16}, LoraCase{40, 16, {64, 32}, DType::f32}));

// Logits that are equal, and targets before, among and behind the first of them.
TEST_P(CudaProducts, LossHeadCountsTheFirstOfTheLargestLogits) {
  int64_t vocabulary = out();
  Builder builder("loss");
  BufferId x = builder.input("x", dtype(), dims(in()));
  BufferId w = builder.weight("w", dtype(), {fixed(vocabulary), fixed(in())}, {});
  BufferId targets = builder.input("targets", DType::i32, {tokens(rows() + 1)});
  BufferId row_tokens = builder.input("rows", DType::i32, {tokens(rows() + 1)});
  BufferId scale = builder.input("scale", DType::f32, {fixed(1)});
  BufferId loss = builder.persistent("loss", DType::f64, {fixed(1)}, Role::batch);
  BufferId hits = builder.persistent("hits", DType::f64, {fixed(1)}, Role::batch);
  builder
      .append(OpKind::loss_head, "loss", {x, w, targets, row_tokens, scale}, {loss, hits}, LossAttributes{2})
      .accumulates = 3;
  OnBoth both(builder.finish());
  both.set("x", std::vector<float>(static_cast<size_t>((rows() + 1) * in()), 1.0F));
  std::vector<float> weights(static_cast<size_t>(vocabulary * in()), 0.0F);
  int64_t first = vocabulary / 3;
  for (int64_t row : {first, vocabulary / 2, vocabulary - 1}) {
    weights[static_cast<size_t>(row * in())] = 1.0F;
  }
  both.set("w", weights);
  std::vector<int64_t> ids;
  int64_t expected = 7;
  for (int64_t i = 0; i <= rows(); ++i) {
    const std::array<int64_t, 4> choices = {first, vocabulary / 2, vocabulary - 1, 0};
    ids.push_back(choices[static_cast<size_t>(i % 4)]);
    expected += i < rows() && ids.back() == first ? 1 : 0;
  }
  both.set_ints("targets", ids);
  both.set_ints("rows", all_rows(rows() + 1));
  both.set("scale", {1.0F});
  both.set_double("loss", 0);
  both.set_double("hits", 7);
  both.run(at_tokens(rows()));
  EXPECT_EQ(both.card_double("hits"), static_cast<double>(expected));
  EXPECT_EQ(both.cpu_double("hits"), static_cast<double>(expected));
}

// `out` is the vocabulary here, `in` the model's width.
TEST_P(CudaProducts, LossHeadAndItsGradient) {
  for (uint32_t accumulates : {0U, 5U}) {
    Builder builder("loss");
    BufferId x = builder.input("x", dtype(), dims(in()));
    BufferId w = builder.weight("w", dtype(), {fixed(out()), fixed(in())}, {});
    BufferId targets = builder.input("targets", DType::i32, {tokens(rows() + 1)});
    BufferId row_tokens = builder.input("rows", DType::i32, {tokens(rows() + 1)});
    BufferId scale = builder.input("scale", DType::f32, {fixed(1)});
    BufferId loss = builder.persistent("loss", DType::f64, {fixed(1)}, Role::batch);
    BufferId eval_loss = builder.persistent("eval_loss", DType::f64, {fixed(1)}, Role::batch);
    BufferId dx = builder.temporary("dx", dtype(), dims(in()));
    BufferId dw = builder.persistent("dw", DType::f32, {fixed(out()), fixed(in())}, Role::gradients);
    LossAttributes attributes{std::max<int64_t>(1, rows() / 3)};
    BufferId hits = builder.persistent("hits", DType::f64, {fixed(1)}, Role::batch);
    builder
        .append(OpKind::loss_head, "eval", {x, w, targets, row_tokens, scale}, {eval_loss, hits}, attributes)
        .accumulates = (accumulates & 1U) | 2U;
    builder
        .append(OpKind::loss_head_gradient, "loss", {x, w, targets, row_tokens, scale}, {loss, dx, dw},
                attributes)
        .accumulates = accumulates;
    OnBoth both(builder.finish());
    both.randomise("x", 1);
    both.randomise("w", 2, 1.0F / std::sqrt(static_cast<float>(in())));
    both.randomise("dw", 3);
    std::vector<int64_t> ids = random_ids(rows() + 1, 4, out());
    for (size_t i = 1; i < ids.size(); i += 4) {
      ids[i] = -100;
    }
    both.set_ints("targets", ids);
    both.set_ints("rows", all_rows(rows() + 1));
    both.set("scale", {0.125F});
    both.set_double("loss", 3.5);
    both.set_double("eval_loss", -2.5);
    both.set_double("hits", 7);
    both.run(at_tokens(rows()));
    // In training logits are rounded: a loss moves by no more than its target's and its largest logit do.
    constexpr double kLargestLogit = 5;
    double unit = dtype() == DType::f32 ? 0 : dtype() == DType::bf16 ? 0x1p-8 : 0x1p-11;
    EXPECT_NEAR(
        both.card_double("loss"), both.cpu_double("loss"),
        1e-5 * std::abs(both.cpu_double("loss")) + 2 * unit * kLargestLogit * static_cast<double>(rows()));
    EXPECT_NEAR(both.card_double("eval_loss"), both.cpu_double("eval_loss"),
                1e-5 * std::abs(both.cpu_double("eval_loss")));
    EXPECT_EQ(both.card_double("hits"), both.cpu_double("hits"));
    both.expect_close_norms("dx", 2 * norm_tolerance());
    both.expect_close_norms("dw", 2 * norm_tolerance());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaProducts,
                         testing::Values(Case{1, 8, 16, DType::f32}, Case{37, 19, 97, DType::f32},
                                         Case{64, 256, 320, DType::f32}, Case{1, 64, 128, DType::bf16},
                                         Case{33, 24, 101, DType::bf16}, Case{130, 257, 515, DType::bf16},
                                         Case{512, 1024, 3000, DType::bf16}, Case{65, 72, 136, DType::f16},
                                         Case{13, 31, 67, DType::f16},
                                         // Beside the largest of a class of sizes (cuda_plan/token_sizes.h).
                                         Case{997, 264, 136, DType::bf16}, Case{1921, 64, 72, DType::f16},
                                         Case{777, 40, 56, DType::f32}),
                         name_of_case);

// Many tensors of odd sizes in one call, with and without compute copies.
Program optimizer_program(DType copy_dtype, int64_t count) {
  bool has_copies = copy_dtype != DType::f32;
  Builder builder("update");
  std::vector<BufferId> gradients;
  std::vector<BufferId> outputs[4];
  AdamwAttributes attributes{
      .epsilon = 1e-6F, .max_norm = 1.0F, .weight_decay = {}, .beside = beside_of(copy_dtype)};
  for (int64_t i = 0; i < count; ++i) {
    Dims dims = {fixed(i == 2 ? 20011 : 3 + 7 * i)};
    std::string name = std::to_string(i);
    gradients.push_back(builder.persistent("g" + name, DType::f32, dims, Role::gradients));
    outputs[0].push_back(builder.persistent("p" + name, DType::f32, dims, Role::adapters));
    outputs[1].push_back(builder.persistent("m" + name, DType::f32, dims, Role::optimizer_states));
    outputs[2].push_back(builder.persistent("v" + name, DType::f32, dims, Role::optimizer_states));
    if (has_copies) {
      outputs[3].push_back(builder.persistent("c" + name, copy_dtype, dims, Role::adapters));
    }
    attributes.weight_decay.push_back(i % 2 == 0 ? 0.1F : 0.0F);
  }
  BufferId scalars = builder.input("scalars", DType::f32, {fixed(4)});
  BufferId norm = builder.persistent("norm", DType::f32, {fixed(1)}, Role::batch);
  builder.append(OpKind::gradient_norm, "norm", gradients, {norm});
  std::vector<BufferId> inputs = gradients;
  inputs.insert(inputs.end(), {scalars, norm});
  std::vector<BufferId> all;
  for (const auto& group : outputs) {
    all.insert(all.end(), group.begin(), group.end());
  }
  builder.append(OpKind::adamw, "adamw", inputs, all, attributes);
  return builder.finish();
}

void fill_optimizer(OnBoth& both, int64_t count) {
  both.set("scalars", {1e-2F, 0.1F, 0.001F, 0.125F});
  for (int64_t i = 0; i < count; ++i) {
    std::string name = std::to_string(i);
    auto seed = static_cast<uint64_t>(10 * i);
    both.randomise("g" + name, seed + 1);
    both.randomise("p" + name, seed + 2);
    both.randomise("m" + name, seed + 3, 0.01F);
    int64_t elements = i == 2 ? 20011 : 3 + 7 * i;
    both.set("v" + name, std::vector<float>(static_cast<size_t>(elements), 1e-4F));
  }
}

TEST(CudaOptimizer, NormAndUpdate) {
  SKIP_WITHOUT_CARD();
  for (DType copy : {DType::f32, DType::f16}) {
    int64_t count = copy == DType::f16 ? 600 : 5;  // more than one launch takes
    OnBoth both(optimizer_program(copy, count));
    fill_optimizer(both, count);
    both.run();
    both.expect_close_values("norm", 1e-5);
    for (int64_t i = 0; i < count; i += 1 + i / 4) {
      for (const char* prefix : {"g", "p", "m", "v"}) {
        both.expect_close_values(prefix + std::to_string(i), 1e-5);
      }
      if (copy != DType::f32) {
        both.expect_close_values("c" + std::to_string(i), card_tolerance(copy));
      }
    }
  }
}

TEST(CudaOptimizer, GradientsThatAreNotFiniteAreDropped) {
  SKIP_WITHOUT_CARD();
  OnBoth both(optimizer_program(DType::f16, 3));
  fill_optimizer(both, 3);
  both.set("g1", {1.0F, std::numeric_limits<float>::infinity(), 2.0F});
  both.set("c0", {1.0F, 2.0F, 3.0F});
  both.set("c1", std::vector<float>(10, 4.0F));
  both.set("c2", std::vector<float>(20011, 5.0F));
  both.run();
  for (const char* name : {"g0", "p0", "m1", "v2", "c1", "g2"}) {
    both.expect_equal(name);
  }
}

TEST(CudaDeterminism, TheSameCallGivesTheSameBits) {
  SKIP_WITHOUT_CARD();
  auto once = [] {
    Builder builder("all");
    Dims wide = {tokens(700), fixed(512)};
    BufferId x = builder.input("x", DType::bf16, wide);
    BufferId dy = builder.input("dy", DType::bf16, wide);
    BufferId w = builder.weight("w", DType::bf16, {fixed(512)}, {});
    BufferId ids = builder.input("ids", DType::i32, {tokens(700)});
    BufferId dw = builder.persistent("dw", DType::f32, {fixed(512)}, Role::gradients);
    BufferId matrix = builder.persistent("matrix", DType::f32, {fixed(512), fixed(512)}, Role::gradients);
    BufferId table = builder.persistent("table", DType::bf16, {fixed(9), fixed(512)}, Role::gradients);
    BufferId thin = builder.weight("thin", DType::bf16, {fixed(16), fixed(512)}, {});
    BufferId down = builder.temporary("down", DType::bf16, {tokens(700), fixed(16)});
    builder.append(OpKind::rms_norm_backward, "dw", {x, w, dy}, {kNoBuffer, dw}, NormAttributes{});
    builder.append(OpKind::linear_backward_weight, "matrix", {dy, x}, {matrix, kNoBuffer},
                   LinearAttributes{});
    builder.append(OpKind::embedding_backward, "table", {ids, dy}, {table});
    builder.append(OpKind::linear, "down", {x, thin}, {down}, LinearAttributes{});
    OnBoth both(builder.finish());
    both.randomise("x", 1);
    both.randomise("dy", 2);
    both.randomise("w", 3);
    both.randomise("thin", 5);
    both.set_ints("ids", random_ids(700, 4, 9));
    both.run();
    return std::vector{both.card_bytes("dw"), both.card_bytes("matrix"), both.card_bytes("table"),
                       both.card_bytes("down")};
  };
  EXPECT_EQ(once(), once());
}

}  // namespace
}  // namespace snug
