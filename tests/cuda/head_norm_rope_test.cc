// The norm of heads joined with their rotation: against the CPU, and to the bit against the two kernels in
// turn, per dtype and at odd sizes.
#include "cuda/on_both.h"

namespace snug {
namespace {

struct Case {
  int64_t rows;
  int64_t head_dim;
  int64_t other_columns;  // values
  DType dtype;
  DType weight;
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(name_of(c.dtype)) + "_" + std::string(name_of(c.weight)) + "_" + std::to_string(c.rows) +
         "x" + std::to_string(c.head_dim) + "_" + std::to_string(c.other_columns);
}

constexpr int64_t kQueryHeads = 3;
constexpr int64_t kKeyHeads = 1;
constexpr float kMagnitude = 1.25F;

class CudaHeadNormRope : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }

  const Case& c() const { return GetParam(); }
  // One row more than is used.
  Dims dims() const {
    return {tokens(c().rows + 1), fixed((kQueryHeads + kKeyHeads) * c().head_dim + c().other_columns)};
  }
  HeadNormAttributes norm() const { return {kQueryHeads, kKeyHeads, 1e-5F}; }
  HeadNormAttributes joined() const { return {kQueryHeads, kKeyHeads, 1e-5F, kMagnitude}; }
  RopeAttributes rope(bool inverse) const {
    return {kQueryHeads + kKeyHeads, c().head_dim, kMagnitude, inverse};
  }

  struct Inputs {
    BufferId x, dy, wq, wk, positions, frequencies;
  };
  Inputs add_inputs(Builder& builder) const {
    return {builder.input("x", c().dtype, dims()),
            builder.input("dy", c().dtype, dims()),
            builder.weight("wq", c().weight, {fixed(c().head_dim)}, {}),
            builder.weight("wk", c().weight, {fixed(c().head_dim)}, {}),
            builder.input("positions", DType::i32, {tokens(c().rows + 1)}),
            builder.persistent("frequencies", DType::f32, {fixed(c().head_dim / 2)}, Role::base_weights)};
  }
  BufferId temporary(Builder& builder, const char* name) const {
    return builder.temporary(name, c().dtype, dims());
  }
  BufferId gradient(Builder& builder, const char* name) const {
    return builder.persistent(name, DType::f32, {fixed(c().head_dim)}, Role::gradients);
  }

  void run(OnBoth& both) const {
    uint64_t seed = 1;
    for (const char* name : {"x", "dy", "wq", "wk"}) {
      both.randomise(name, seed++);
    }
    both.set_ints("positions", random_ids(c().rows + 1, seed, 4000));
    std::vector<float> turns(static_cast<size_t>(c().head_dim / 2));
    for (size_t i = 0; i < turns.size(); ++i) {
      turns[i] = std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(c().head_dim));
    }
    both.set("frequencies", turns);
    both.run(at_tokens(c().rows));
  }

  // Numbers are rounded once to thrice, and a turn makes pairs no longer. Angles in the thousands have few
  // digits behind the point in fp32.
  double tolerance() const { return std::max(1.5 * card_tolerance(c().dtype), 3e-5); }
};

TEST_P(CudaHeadNormRope, ForwardIsTheNormTurned) {
  Builder builder("forward");
  Inputs in = add_inputs(builder);
  BufferId normed = temporary(builder, "normed");
  BufferId own = builder.persistent("own", c().dtype, dims(), Role::activations);
  builder.append(OpKind::head_norm, "norm", {in.x, in.wq, in.wk}, {normed}, norm());
  builder.append(OpKind::rope, "rope", {normed, in.positions, in.frequencies}, {temporary(builder, "apart")},
                 rope(false));
  builder.append(OpKind::head_norm_rope, "joined", {in.x, in.wq, in.wk, in.positions, in.frequencies},
                 {temporary(builder, "y")}, joined());
  builder.append(OpKind::copy, "copy", {in.x}, {own});
  builder.append(OpKind::head_norm_rope, "in place", {own, in.wq, in.wk, in.positions, in.frequencies}, {own},
                 joined());
  OnBoth both(builder.finish());
  run(both);
  both.expect_close_norms("y", tolerance());
  both.expect_same_on_card("y", "apart");
  both.expect_same_on_card("own", "apart");
}

TEST_P(CudaHeadNormRope, BackwardIsTheNormsOfWhatIsTurnedBack) {
  Builder builder("backward");
  Inputs in = add_inputs(builder);
  BufferId turned_back = temporary(builder, "turned_back");
  BufferId dwq = gradient(builder, "dwq");
  BufferId apart_dwq = gradient(builder, "apart_dwq");
  builder.append(OpKind::rope, "back", {in.dy, in.positions, in.frequencies}, {turned_back}, rope(true));
  builder
      .append(OpKind::head_norm_backward, "norm", {in.x, in.wq, in.wk, turned_back},
              {temporary(builder, "apart_dx"), apart_dwq, gradient(builder, "apart_dwk")}, norm())
      .accumulates = 2;
  std::vector<BufferId> inputs = {in.x, in.wq, in.wk, in.dy, in.positions, in.frequencies};
  builder
      .append(OpKind::head_norm_rope_backward, "joined", inputs,
              {temporary(builder, "dx"), dwq, gradient(builder, "dwk")}, joined())
      .accumulates = 2;
  builder.append(OpKind::head_norm_rope_backward, "dx alone", inputs,
                 {temporary(builder, "lone_dx"), kNoBuffer, kNoBuffer}, joined());
  OnBoth both(builder.finish());
  both.randomise("dwq", 9);
  both.randomise("apart_dwq", 9);
  run(both);
  for (const char* name : {"dx", "dwq", "dwk"}) {
    both.expect_close_norms(name, tolerance());
    both.expect_same_on_card(name, std::string("apart_") + name);
  }
  both.expect_same_on_card("dx", "lone_dx");
}

// Heads of 600 and 1024 numbers are more than a warp holds at once.
INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaHeadNormRope,
    testing::Values(Case{1, 2, 0, DType::f32, DType::f32}, Case{37, 6, 5, DType::f32, DType::f32},
                    Case{300, 64, 64, DType::f32, DType::f32}, Case{5, 10, 3, DType::bf16, DType::bf16},
                    Case{129, 128, 256, DType::bf16, DType::bf16}, Case{7, 80, 80, DType::bf16, DType::f32},
                    Case{29, 18, 1, DType::f16, DType::f16}, Case{258, 96, 96, DType::f16, DType::f16},
                    Case{3, 600, 600, DType::bf16, DType::bf16},
                    Case{11, 1024, 512, DType::bf16, DType::bf16},
                    Case{9001, 16, 16, DType::bf16, DType::bf16}),
    name_of_case);

}  // namespace
}  // namespace snug
