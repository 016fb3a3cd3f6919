// The loss head with fewer rows than tokens, against the CPU: rows that are no token, one row, no target at
// all, chunks that do not divide the rows, with and without each gradient.
#include "cuda/on_both.h"

namespace snug {
namespace {

struct Case {
  int64_t tokens;
  int64_t rows;     // of the head
  int64_t targets;  // that these have; the other rows are no token
  int64_t chunk;
  int64_t width;
  int64_t vocabulary;
  DType dtype;
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(name_of(c.dtype)) + "_" + std::to_string(c.targets) + "in" + std::to_string(c.rows) +
         "of" + std::to_string(c.tokens) + "by" + std::to_string(c.chunk) + "_" + std::to_string(c.width) +
         "x" + std::to_string(c.vocabulary);
}

struct Wish {
  bool dx;
  bool dw;
  bool accumulate;
};

class CudaLossHead : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }

  static Program program(const Wish& wish) {
    const Case& c = GetParam();
    Builder builder("loss");
    BufferId x = builder.input("x", c.dtype, {tokens(c.tokens + 3), fixed(c.width)});
    BufferId w = builder.weight("w", c.dtype, {fixed(c.vocabulary), fixed(c.width)}, {});
    BufferId targets = builder.input("targets", DType::i32, {target_rows(c.tokens + 3)});
    BufferId rows = builder.input("rows", DType::i32, {target_rows(c.tokens + 3)});
    BufferId scale = builder.input("scale", DType::f32, {fixed(1)});
    auto sum = [&](const char* name) {
      return builder.persistent(name, DType::f64, {fixed(1)}, Role::batch);
    };
    BufferId dx =
        wish.dx ? builder.temporary("dx", c.dtype, {tokens(c.tokens + 3), fixed(c.width)}) : kNoBuffer;
    BufferId dw =
        wish.dw ? builder.persistent("dw", DType::f32, {fixed(c.vocabulary), fixed(c.width)}, Role::gradients)
                : kNoBuffer;
    std::vector<BufferId> inputs = {x, w, targets, rows, scale};
    uint32_t accumulates = wish.accumulate ? 1U : 0U;
    builder
        .append(OpKind::loss_head, "eval", inputs, {sum("eval_loss"), sum("hits")}, LossAttributes{c.chunk})
        .accumulates = accumulates | 2U;
    builder.append(OpKind::loss_head_gradient, "loss", inputs, {sum("loss"), dx, dw}, LossAttributes{c.chunk})
        .accumulates = 5 * accumulates;
    return builder.finish();
  }

  static void set_inputs(OnBoth& both) {
    const Case& c = GetParam();
    both.randomise("x", 1);
    both.randomise("w", 2, 1.0F / std::sqrt(static_cast<float>(c.width)));
    std::vector<int64_t> row_tokens(static_cast<size_t>(c.rows), -1);
    std::vector<int64_t> row_targets(static_cast<size_t>(c.rows), -100);
    std::vector<int64_t> ids = random_ids(c.targets, 4, c.vocabulary);
    for (int64_t i = 0; i < c.targets; ++i) {
      // The last token is one of them.
      int64_t token = c.rows == c.tokens ? i : (i + 1) * c.tokens / c.targets - 1;
      row_tokens[static_cast<size_t>(i)] = token;
      row_targets[static_cast<size_t>(i)] = ids[static_cast<size_t>(i)];
    }
    both.set_ints("rows", row_tokens);
    both.set_ints("targets", row_targets);
    both.set("scale", {0.125F});
  }

  static void reset_sums(OnBoth& both, const Wish& wish) {
    both.set_double("loss", 3.5);
    both.set_double("eval_loss", -2.5);
    both.set_double("hits", 7);
    if (wish.dw) {
      both.randomise("dw", 3);
    }
  }

  // In training logits are rounded: a loss moves by no more than its target's and its largest logit do.
  static void expect_losses(const OnBoth& both) {
    constexpr double kLargestLogit = 5;
    DType dtype = GetParam().dtype;
    double unit = dtype == DType::f32 ? 0 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    double rounding = 2 * unit * kLargestLogit * static_cast<double>(GetParam().targets);
    EXPECT_NEAR(both.card_double("loss"), both.cpu_double("loss"),
                1e-5 * std::abs(both.cpu_double("loss")) + rounding);
    EXPECT_NEAR(both.card_double("eval_loss"), both.cpu_double("eval_loss"),
                1e-5 * std::abs(both.cpu_double("eval_loss")));
    EXPECT_EQ(both.card_double("hits"), both.cpu_double("hits"));
  }

  static void expect_gradient(OnBoth& both, const char* name) {
    DType dtype = GetParam().dtype;
    if (GetParam().targets == 0) {
      both.expect_equal(name);
    } else {
      both.expect_close_norms(name, 2 * (dtype == DType::f32 ? 3e-6 : dtype == DType::bf16 ? 4e-3 : 5e-4));
    }
  }
};

TEST_P(CudaLossHead, OfSomeTokens) {
  const Case& c = GetParam();
  for (const Wish& wish : {Wish{true, true, false}, Wish{true, true, true}, Wish{true, false, false},
                           Wish{false, true, true}, Wish{false, true, false}}) {
    SCOPED_TRACE(testing::Message() << wish.dx << wish.dw << wish.accumulate);
    OnBoth both(program(wish));
    set_inputs(both);
    reset_sums(both, wish);
    both.run(at_tokens(c.tokens, c.rows));
    expect_losses(both);
    if (wish.dx) {
      expect_gradient(both, "dx");
    }
    if (wish.dw) {
      expect_gradient(both, "dw");
    }
  }
}

TEST_P(CudaLossHead, AgainTheSameBits) {
  const Case& c = GetParam();
  Wish wish{true, true, true};
  OnBoth both(program(wish));
  set_inputs(both);
  std::vector<std::vector<std::byte>> first;
  for (bool again : {false, true}) {
    reset_sums(both, wish);
    both.run(at_tokens(c.tokens, c.rows));
    std::vector<std::vector<std::byte>> now;
    for (const char* name : {"loss", "eval_loss", "hits", "dx", "dw"}) {
      now.push_back(both.card_bytes(name));
    }
    if (again) {
      EXPECT_EQ(now, first);
    }
    first = std::move(now);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, CudaLossHead,
    testing::Values(Case{100, 64, 64, 64, 24, 101, DType::f32}, Case{100, 64, 37, 20, 24, 101, DType::f32},
                    Case{100, 1, 1, 8, 19, 97, DType::f32}, Case{100, 64, 0, 20, 24, 101, DType::f32},
                    Case{64, 64, 64, 20, 24, 101, DType::f32}, Case{64, 64, 30, 20, 24, 101, DType::f32},
                    Case{300, 128, 121, 50, 257, 515, DType::bf16},
                    Case{1000, 320, 300, 128, 264, 1001, DType::bf16},
                    Case{1000, 64, 1, 128, 72, 136, DType::bf16}, Case{200, 64, 0, 64, 72, 136, DType::bf16},
                    Case{200, 200, 150, 64, 72, 136, DType::bf16},
                    Case{300, 128, 128, 100, 31, 67, DType::f16}, Case{130, 64, 20, 64, 72, 136, DType::f16},
                    Case{130, 1, 1, 64, 40, 136, DType::f16}, Case{130, 64, 0, 30, 72, 136, DType::f16}),
    name_of_case);

}  // namespace
}  // namespace snug
