// Products with a gated activation behind them, against the CPU: at sizes that one kernel takes on Hopper,
// with tiles that are not full, and at sizes that are made by two kernels everywhere.
#include "cuda/on_both.h"

namespace snug {
namespace {

struct Case {
  int64_t rows;
  int64_t width;     // of the model
  int64_t features;  // of the activation
  DType dtype;
  Activation activation;
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  const char* activation = c.activation == Activation::silu        ? "silu"
                           : c.activation == Activation::gelu_tanh ? "gelu_tanh"
                                                                   : "gelu";
  return std::string(name_of(c.dtype)) + "_" + activation + "_" + std::to_string(c.rows) + "x" +
         std::to_string(c.width) + "x" + std::to_string(c.features);
}

class CudaGatedProducts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
  DType dtype() const { return GetParam().dtype; }
  Dims dims(int64_t columns) const { return {tokens(GetParam().rows + 1), fixed(columns)}; }
  // Sums are rounded where they are written down, and the activation once more.
  double tolerance() const { return dtype() == DType::f32 ? 5e-6 : dtype() == DType::bf16 ? 8e-3 : 1e-3; }
  GatedLinearAttributes attributes() const { return {{}, {GetParam().activation}}; }
  void SetRandom(OnBoth& both, std::initializer_list<const char*> names) {
    uint64_t seed = 1;
    for (const char* name : names) {
      both.randomise(name, seed++);
    }
    // Sums of this many products are to be of the size of one.
    both.randomise("w", seed, 1.0F / std::sqrt(static_cast<float>(GetParam().width)));
  }
};

TEST_P(CudaGatedProducts, Forward) {
  const auto& [rows, width, features, type, activation] = GetParam();
  for (uint32_t adds : {0U, 1U}) {
    Builder builder("gated");
    BufferId x = builder.input("x", dtype(), dims(width));
    BufferId w = builder.weight("w", dtype(), {fixed(2 * features), fixed(width)}, {});
    BufferId sums = builder.input("sums", dtype(), dims(2 * features));
    BufferId twice = builder.input("twice", dtype(), dims(2 * features));
    BufferId y = builder.temporary("y", dtype(), dims(features));
    BufferId again = builder.temporary("again", dtype(), dims(features));
    BufferId apart = builder.temporary("apart", dtype(), dims(features));
    BufferId alone = builder.input("alone", dtype(), dims(2 * features));
    builder.append(OpKind::gated_linear, "gated", {x, w}, {sums, y}, attributes()).accumulates = adds;
    builder.append(OpKind::gated_linear, "again", {x, w}, {twice, again}, attributes()).accumulates = adds;
    builder.append(OpKind::gated_activation, "apart", {sums}, {apart}, GateAttributes{activation});
    builder.append(OpKind::gated_linear, "alone", {x, w}, {alone, kNoBuffer}, attributes()).accumulates =
        adds;
    OnBoth both(builder.finish());
    SetRandom(both, {"x", "sums"});
    both.randomise("twice", 2);  // as sums
    both.randomise("alone", 2);
    both.run(at_tokens(rows));
    both.expect_close_norms("sums", tolerance());
    both.expect_close_norms("y", tolerance());
    both.expect_same_on_card("sums", "twice");
    both.expect_same_on_card("sums", "alone");
    both.expect_same_on_card("y", "again");
    both.expect_same_on_card("y", "apart");
  }
}

TEST_P(CudaGatedProducts, Gradient) {
  const auto& [rows, width, features, type, activation] = GetParam();
  for (bool adds : {false, true}) {
    for (bool makes_again : {false, true}) {
      Builder builder("gated");
      BufferId x = builder.input("x", dtype(), dims(2 * features));
      BufferId dy = builder.input("dy", dtype(), dims(width));
      BufferId w = builder.weight("w", dtype(), {fixed(width), fixed(features)}, {});
      BufferId part = builder.input("part", dtype(), dims(features));
      BufferId same = builder.input("same", dtype(), dims(features));
      BufferId dx = builder.temporary("dx", dtype(), dims(2 * features));
      BufferId twice = builder.temporary("twice", dtype(), dims(2 * features));
      BufferId again = builder.temporary("again", dtype(), dims(features));
      BufferId gated = builder.temporary("gated", dtype(), dims(features));
      std::vector<BufferId> results = {dx};
      if (makes_again) {
        results.push_back(again);
      }
      builder.append(OpKind::gated_linear_backward, "gated", {x, adds ? part : kNoBuffer, dy, w}, results,
                     attributes());
      results[0] = twice;
      if (makes_again) {
        results[1] = gated;
      }
      builder.append(OpKind::gated_linear_backward, "twice", {x, adds ? same : kNoBuffer, dy, w}, results,
                     attributes());
      OnBoth both(builder.finish());
      SetRandom(both, {"x", "dy", "part"});
      both.randomise("same", 3);  // as part
      both.run(at_tokens(rows));
      both.expect_close_norms("dx", tolerance());
      both.expect_same_on_card("dx", "twice");
      if (makes_again) {
        both.expect_close_norms("again", tolerance());
        both.expect_same_on_card("again", "gated");
      }
    }
  }
}

// Ranks of which gate and up share a step, or have several, or too many for one kernel; for wide cases, which
// take the CPU long, only one of them.
std::vector<int64_t> ranks_for(int64_t width) {
  return width >= 2048 ? std::vector<int64_t>{128} : std::vector<int64_t>{8, 72, 144};
}

TEST_P(CudaGatedProducts, ForwardWithAnAdapter) {
  const auto& [rows, width, features, type, activation] = GetParam();
  for (int64_t rank : ranks_for(width)) {
    for (bool halves : {true, false}) {
      LoraAttributes adapter{0.75F, rank, {{0, 0, 2 * features}}};
      if (halves) {
        adapter.parts = {{0, 0, features}, {features, features, features}};
      }
      Builder builder("gated");
      BufferId x = builder.input("x", dtype(), dims(width));
      BufferId w = builder.weight("w", dtype(), {fixed(2 * features), fixed(width)}, {});
      BufferId down = builder.input("down", dtype(), dims(static_cast<int64_t>(adapter.parts.size()) * rank));
      BufferId b = builder.weight("b", dtype(), {fixed(2 * features), fixed(rank)}, {});
      BufferId sums = builder.temporary("sums", dtype(), dims(2 * features));
      BufferId twice = builder.temporary("twice", dtype(), dims(2 * features));
      BufferId y = builder.temporary("y", dtype(), dims(features));
      BufferId apart = builder.temporary("apart", dtype(), dims(features));
      GatedLinearAttributes all = attributes();
      all.product.adapter = adapter;
      builder.append(OpKind::gated_linear, "gated", {x, w, kNoBuffer, down, b}, {sums, y}, all);
      builder.append(OpKind::gated_linear, "alone", {x, w, kNoBuffer, down, b}, {twice, kNoBuffer}, all);
      builder.append(OpKind::gated_activation, "apart", {sums}, {apart}, GateAttributes{activation});
      OnBoth both(builder.finish());
      SetRandom(both, {"x", "down"});
      both.randomise("b", 7, 1.0F / std::sqrt(static_cast<float>(rank)));
      both.run(at_tokens(rows));
      both.expect_close_norms("sums", tolerance());
      both.expect_close_norms("y", tolerance());
      both.expect_same_on_card("sums", "twice");
      both.expect_same_on_card("y", "apart");
    }
  }
}

TEST_P(CudaGatedProducts, GradientWithAnAdapter) {
  const auto& [rows, width, features, type, activation] = GetParam();
  for (int64_t rank : ranks_for(width)) {
    for (bool makes_again : {false, true}) {
      Builder builder("gated");
      BufferId x = builder.input("x", dtype(), dims(2 * features));
      BufferId dy = builder.input("dy", dtype(), dims(width));
      BufferId w = builder.weight("w", dtype(), {fixed(width), fixed(features)}, {});
      BufferId ddown = builder.input("ddown", dtype(), dims(rank));
      BufferId a = builder.weight("a", dtype(), {fixed(rank), fixed(features)}, {});
      BufferId dx = builder.temporary("dx", dtype(), dims(2 * features));
      BufferId twice = builder.temporary("twice", dtype(), dims(2 * features));
      BufferId again = builder.temporary("again", dtype(), dims(features));
      std::vector<BufferId> results = {dx};
      if (makes_again) {
        results.push_back(again);
      }
      builder.append(OpKind::gated_linear_backward, "gated", {x, kNoBuffer, dy, w, ddown, a}, results,
                     attributes());
      builder.append(OpKind::gated_linear_backward, "twice", {x, kNoBuffer, dy, w, ddown, a}, {twice},
                     attributes());
      OnBoth both(builder.finish());
      SetRandom(both, {"x", "dy", "ddown"});
      both.randomise("a", 7, 1.0F / std::sqrt(static_cast<float>(rank)));
      both.run(at_tokens(rows));
      both.expect_close_norms("dx", tolerance());
      both.expect_same_on_card("dx", "twice");
      if (makes_again) {
        both.expect_close_norms("again", tolerance());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaGatedProducts,
    testing::Values(Case{4101, 256, 416, DType::bf16, Activation::silu},
                    Case{4229, 200, 264, DType::f16, Activation::silu},
                    Case{4096, 72, 1000, DType::bf16, Activation::gelu_tanh},
                    Case{4101, 2056, 1000, DType::bf16, Activation::silu},  // deep gradients
                    Case{4300, 2048, 456, DType::f16, Activation::gelu_tanh},
                    Case{4101, 64, 72, DType::bf16, Activation::gelu},  // no kernel of its own
                    Case{37, 64, 72, DType::bf16, Activation::silu},    // too few tokens
                    Case{4101, 33, 77, DType::f16, Activation::silu},   // rows that are no whole vectors
                    Case{4101, 64, 72, DType::f32, Activation::silu}),
    name_of_case);

}  // namespace
}  // namespace snug
