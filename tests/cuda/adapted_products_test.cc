// Products that begin with an adapter's share, against the CPU: at sizes that one kernel takes on Hopper,
// with tiles that are not full and parts that begin within one, and at sizes that are made by two kernels.
#include "cuda/on_both.h"

namespace snug {
namespace {

struct Case {
  int64_t rows;
  int64_t inputs;
  std::vector<int64_t> parts;  // outputs of each
  int64_t rank;
  DType dtype;
};

int64_t outputs_of(const Case& c) {
  int64_t sum = 0;
  for (int64_t part : c.parts) {
    sum += part;
  }
  return sum;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(name_of(c.dtype)) + "_" + std::to_string(c.rows) + "x" + std::to_string(c.inputs) + "x" +
         std::to_string(outputs_of(c)) + "_" + std::to_string(c.parts.size()) + "_parts_of_rank_" +
         std::to_string(c.rank);
}

class CudaAdaptedProducts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
  DType dtype() const { return GetParam().dtype; }
  Dims dims(int64_t columns) const { return {tokens(GetParam().rows + 1), fixed(columns)}; }
  int64_t all_ranks() const { return static_cast<int64_t>(GetParam().parts.size()) * GetParam().rank; }
  // Sums are rounded where they are written down: the share too, where it is.
  double tolerance() const { return dtype() == DType::f32 ? 5e-6 : dtype() == DType::bf16 ? 8e-3 : 1e-3; }
  LoraAttributes adapter() const {
    LoraAttributes attributes{0.75F, GetParam().rank, {}};
    int64_t begin = 0;
    for (int64_t part : GetParam().parts) {
      attributes.parts.push_back({begin, begin, part});
      begin += part;
    }
    return attributes;
  }
};

TEST_P(CudaAdaptedProducts, Forward) {
  const Case& c = GetParam();
  int64_t outputs = outputs_of(c);
  Builder builder("adapted");
  BufferId x = builder.input("x", dtype(), dims(c.inputs));
  BufferId w = builder.weight("w", dtype(), {fixed(outputs), fixed(c.inputs)}, {});
  BufferId down = builder.input("down", dtype(), dims(all_ranks()));
  BufferId b = builder.weight("b", dtype(), {fixed(outputs), fixed(c.rank)}, {});
  BufferId y = builder.temporary("y", dtype(), dims(outputs));
  BufferId twice = builder.temporary("twice", dtype(), dims(outputs));
  for (BufferId result : {y, twice}) {
    builder.append(OpKind::linear, "y", {x, w, kNoBuffer, down, b}, {result},
                   LinearAttributes{1.0F, adapter()});
  }
  OnBoth both(builder.finish());
  both.randomise("x", 1);
  both.randomise("down", 2);
  both.randomise("w", 3, 1.0F / std::sqrt(static_cast<float>(c.inputs)));
  both.randomise("b", 4, 1.0F / std::sqrt(static_cast<float>(c.rank)));
  both.run(at_tokens(c.rows));
  both.expect_close_norms("y", tolerance());
  both.expect_same_on_card("y", "twice");
}

TEST_P(CudaAdaptedProducts, Gradient) {
  const Case& c = GetParam();
  int64_t outputs = outputs_of(c);
  Builder builder("adapted");
  BufferId dy = builder.input("dy", dtype(), dims(outputs));
  BufferId w = builder.weight("w", dtype(), {fixed(outputs), fixed(c.inputs)}, {});
  BufferId ddown = builder.input("ddown", dtype(), dims(all_ranks()));
  BufferId a = builder.weight("a", dtype(), {fixed(all_ranks()), fixed(c.inputs)}, {});
  BufferId dx = builder.temporary("dx", dtype(), dims(c.inputs));
  BufferId twice = builder.temporary("twice", dtype(), dims(c.inputs));
  for (BufferId result : {dx, twice}) {
    builder.append(OpKind::linear_backward_input, "dx", {dy, w, ddown, a}, {result}, LinearAttributes{});
  }
  OnBoth both(builder.finish());
  both.randomise("dy", 1);
  both.randomise("ddown", 2);
  both.randomise("w", 3, 1.0F / std::sqrt(static_cast<float>(outputs)));
  both.randomise("a", 4, 1.0F / std::sqrt(static_cast<float>(all_ranks())));
  both.run(at_tokens(c.rows));
  both.expect_close_norms("dx", tolerance());
  both.expect_same_on_card("dx", "twice");
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaAdaptedProducts,
    testing::Values(Case{4101, 264, {416}, 16, DType::bf16}, Case{4229, 200, {256, 64, 96}, 16, DType::f16},
                    Case{4096, 520, {512, 32, 32}, 8, DType::bf16},
                    Case{4300, 72, {96, 104, 200}, 16, DType::bf16},  // parts within pieces
                    Case{4101, 328, {352, 320}, 32, DType::bf16}, Case{4101, 72, {1000}, 64, DType::bf16},
                    Case{4101, 64, {128, 128}, 40, DType::bf16},  // too many steps
                    Case{37, 64, {72}, 8, DType::bf16},           // too few tokens
                    Case{4101, 33, {77}, 5, DType::f16},          // rows that are no whole vectors
                    Case{4101, 64, {72}, 8, DType::f32}),
    name_of_case);

}  // namespace
}  // namespace snug
