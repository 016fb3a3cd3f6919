// Products that begin with an adapter's share, against the CPU: sizes whose tiles fill an H200 at once, for
// which Hopper has a kernel, and others.
#include <cmath>

#include "cuda/on_both.h"

namespace snug {
namespace {

struct Case {
  int64_t rows;
  int64_t depth;
  std::vector<int64_t> parts;  // columns of y
  int64_t rank;
  DType dtype;
};

class CudaAdaptedProducts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
  Dims dims(int64_t columns) const { return {tokens(GetParam().rows + 1), fixed(columns)}; }
  double tolerance() const { return GetParam().dtype == DType::bf16 ? 4e-3 : 5e-4; }
  int64_t columns() const {
    int64_t sum = 0;
    for (int64_t part : GetParam().parts) {
      sum += part;
    }
    return sum;
  }
  int64_t stacked() const { return std::ssize(GetParam().parts) * GetParam().rank; }
};

TEST_P(CudaAdaptedProducts, Forward) {
  const auto& [rows, depth, parts, rank, dtype] = GetParam();
  for (bool has_bias : {false, true}) {
    LoraAttributes adapter{0.75F, rank, {}};
    int64_t column = 0;
    for (int64_t part : parts) {
      adapter.parts.push_back({column, column, part});
      column += part;
    }
    Builder builder("adapted");
    BufferId x = builder.input("x", dtype, dims(depth));
    BufferId w = builder.weight("w", dtype, {fixed(columns()), fixed(depth)}, {});
    BufferId bias = has_bias ? builder.weight("bias", dtype, {fixed(columns())}, {}) : kNoBuffer;
    BufferId down = builder.input("down", dtype, dims(stacked()));
    BufferId b = builder.weight("b", dtype, {fixed(column), fixed(rank)}, {});
    BufferId y = builder.temporary("y", dtype, dims(columns()));
    BufferId twice = builder.temporary("twice", dtype, dims(columns()));
    builder.append(OpKind::linear, "y", {x, w, bias, down, b}, {y}, LinearAttributes{1.0F, adapter});
    builder.append(OpKind::linear, "twice", {x, w, bias, down, b}, {twice}, LinearAttributes{1.0F, adapter});
    OnBoth both(builder.finish());
    both.randomise("x", 1);
    both.randomise("w", 2, 1.0F / std::sqrt(static_cast<float>(depth)));
    both.randomise("down", 3);
    both.randomise("b", 4, 1.0F / std::sqrt(static_cast<float>(rank)));
    if (has_bias) {
      both.randomise("bias", 5);
    }
    both.run(at_tokens(rows));
    both.expect_close_norms("y", tolerance());
    both.expect_same_on_card("y", "twice");
  }
}

TEST_P(CudaAdaptedProducts, Gradient) {
  const auto& [rows, depth, parts, rank, dtype] = GetParam();
  Builder builder("adapted");
  BufferId dy = builder.input("dy", dtype, dims(depth));
  BufferId w = builder.weight("w", dtype, {fixed(depth), fixed(columns())}, {});
  BufferId ddown = builder.input("ddown", dtype, dims(stacked()));
  BufferId a = builder.weight("a", dtype, {fixed(stacked()), fixed(columns())}, {});
  BufferId dx = builder.temporary("dx", dtype, dims(columns()));
  BufferId twice = builder.temporary("twice", dtype, dims(columns()));
  builder.append(OpKind::linear_backward_input, "dx", {dy, w, ddown, a}, {dx}, LinearAttributes{});
  builder.append(OpKind::linear_backward_input, "twice", {dy, w, ddown, a}, {twice}, LinearAttributes{});
  OnBoth both(builder.finish());
  both.randomise("dy", 1);
  both.randomise("w", 2, 1.0F / std::sqrt(static_cast<float>(depth)));
  both.randomise("ddown", 3);
  both.randomise("a", 4, 1.0F / std::sqrt(static_cast<float>(stacked())));
  both.run(at_tokens(rows));
  both.expect_close_norms("dx", tolerance());
  both.expect_same_on_card("dx", "twice");
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaAdaptedProducts,
                         testing::Values(Case{512, 256, {3584}, 128, DType::bf16},
                                         Case{512, 200, {3584, 512, 512}, 128, DType::bf16},
                                         Case{500, 264, {2048, 1024, 1024}, 24, DType::f16},
                                         Case{490, 72, {3064}, 16, DType::bf16},
                                         Case{509, 136, {5112}, 64, DType::f16},
                                         Case{512, 64, {4088, 2048}, 136, DType::bf16},
                                         Case{256, 136, {1000, 1000}, 8, DType::bf16}));

}  // namespace
}  // namespace snug
