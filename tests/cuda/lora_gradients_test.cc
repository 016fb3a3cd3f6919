// Both gradients of LoRA's up product, together and each by itself, against the CPU, at the sizes of few
// tokens that Hopper has a kernel for and at some that it has not.
#include "cuda/lora_case.h"

namespace snug {
namespace {

class CudaLoraGradients : public LoraOnCard {};

// Made together, again, and apart: beyond the ranks whose gradients come of one reading of dy, ops that
// recomputation takes apart have to have the same bits.
TEST_P(CudaLoraGradients, AreTheSameTogetherAndApart) {
  const LoraCase& c = GetParam();
  LoraAttributes attributes = c.attributes();
  Dims down_dims = {tokens(c.rows + 1), fixed(c.stacked())};
  for (bool accumulates : {false, true}) {
    Builder builder("lora");
    BufferId down = builder.input("down", c.dtype, down_dims);
    BufferId b = builder.weight("b", c.dtype, {fixed(c.b_rows()), fixed(c.rank)}, {});
    BufferId dy = builder.input("dy", c.dtype, {tokens(c.rows + 1), fixed(c.columns())});
    auto ddown = [&](const char* name) { return builder.input(name, c.dtype, down_dims); };
    auto db = [&](const char* name) {
      return builder.persistent(name, DType::f32, {fixed(c.b_rows()), fixed(c.rank)}, Role::gradients);
    };
    auto append = [&](const char* name, std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
      builder.append(OpKind::lora_up_backward, name, std::move(inputs), std::move(outputs), attributes)
          .accumulates = accumulates ? 3 : 0;
    };
    append("both", {dy, down, b}, {ddown("ddown"), db("db")});
    append("again", {dy, down, b}, {ddown("ddown.again"), db("db.again")});
    append("first", {dy, kNoBuffer, b}, {ddown("ddown.alone"), kNoBuffer});
    append("second", {dy, down, kNoBuffer}, {kNoBuffer, db("db.alone")});
    OnBoth both(builder.finish());
    both.randomise("down", 1);
    both.randomise("b", 2);
    both.randomise("dy", 3);
    for (const char* name : {"ddown", "ddown.again", "ddown.alone"}) {
      both.randomise(name, 4);
    }
    for (const char* name : {"db", "db.again", "db.alone"}) {
      both.randomise(name, 5);
    }
    both.run(at_tokens(c.rows));
    for (const char* name : {"ddown", "db", "ddown.alone", "db.alone"}) {
      both.expect_close_norms(name, c.dtype == DType::bf16 ? 4e-3 : 5e-4);
    }
    both.expect_same_on_card("ddown", "ddown.again");
    both.expect_same_on_card("db", "db.again");
    if (c.rank > kSmallRank) {
      both.expect_same_on_card("ddown", "ddown.alone");
      both.expect_same_on_card("db", "db.alone");
    }
  }
}

// From one token to more than the kernel takes; parts that end within a tile, and many more tiles than
// blocks; ranks of one and of several slices.
INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaLoraGradients,
    testing::Values(LoraCase{512, 128, {3584, 512, 512}, DType::bf16},
                    LoraCase{500, 128, {3584}, DType::bf16}, LoraCase{500, 128, {9000, 9000}, DType::bf16},
                    LoraCase{1, 128, {72, 8, 520}, DType::bf16},
                    LoraCase{129, 64, {1000, 8, 8, 40}, DType::f16},
                    LoraCase{511, 256, {2128, 72}, DType::bf16},
                    LoraCase{384, 256, {640, 136, 136, 200}, DType::f16},
                    LoraCase{257, 192, {712, 3000}, DType::f16}, LoraCase{300, 72, {136, 4104}, DType::bf16},
                    LoraCase{200, 40, {2048}, DType::f16}, LoraCase{480, 32, {1032, 264}, DType::bf16},
                    LoraCase{480, 16, {1032, 264}, DType::f16}, LoraCase{513, 128, {1032, 264}, DType::bf16},
                    LoraCase{130, 72, {8200}, DType::bf16}, LoraCase{60, 96, {520}, DType::f16}));

}  // namespace
}  // namespace snug
