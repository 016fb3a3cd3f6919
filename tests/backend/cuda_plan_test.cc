// What CUDA kernels need, by hand: this runs in every build, without a card.
#include <gtest/gtest.h>

#include "backend/cuda_plan/planned_card.h"
#include "base/bytes.h"
#include "program/builder.h"

namespace snug {
namespace {

constexpr int64_t kProductScratch = 32 * 1024 * 1024;

// One op on fresh buffers; an empty shape stands for an input or output that is not there.
struct OneOp {
  using Shapes = std::vector<std::vector<Dim>>;

  OneOp(OpKind kind, const Shapes& inputs, const Shapes& outputs, Attributes attributes = {},
        DType dtype = DType::bf16) {
    op.kind = kind;
    op.name = "op";
    op.attributes = std::move(attributes);
    for (const auto& dims : inputs) {
      op.inputs.push_back(add(dims, dtype));
    }
    for (const auto& dims : outputs) {
      op.outputs.push_back(add(dims, dtype));
    }
  }

  BufferId add(const std::vector<Dim>& dims, DType dtype) {
    if (dims.empty()) {
      return kNoBuffer;
    }
    std::string name = "buffer " + std::to_string(program.buffers.size());
    return program.add_buffer({.name = name, .format = dtype, .dims = dims});
  }
  int64_t workspace_bytes() const { return card.workspace_bytes(program, op); }
  std::string unsupported() const { return card.find_unsupported(program, op); }

  PlannedCard card;
  Program program;
  Op op;
};

AttentionAttributes attention_of(int64_t heads, int64_t head_dim) {
  AttentionAttributes attributes;
  attributes.heads = heads;
  attributes.kv_heads = heads;
  attributes.head_dim = head_dim;
  return attributes;
}

// Queries, keys and values, offsets, o, lse, do: T tokens of `sequences`.
OneOp attention_backward(const AttentionAttributes& attributes, int64_t tokens_count, int64_t sequences) {
  Dim rows = fixed(tokens_count);
  Dim width = fixed(attributes.heads * attributes.head_dim);
  Dim offsets = fixed(sequences + 1);
  return {OpKind::attention_backward,
          {{rows, width},
           {rows, width},
           {offsets},
           {offsets},
           {rows, width},
           {rows, fixed(attributes.heads)},
           {rows, width}},
          {{rows, width}, {rows, width}},
          attributes};
}

TEST(PlannedCard, ProductsTakeTheirFixedScratch) {
  OneOp product(OpKind::linear, {{fixed(100), fixed(64)}, {fixed(32), fixed(64)}}, {{fixed(100), fixed(32)}},
                LinearAttributes{});
  EXPECT_EQ(product.workspace_bytes(), kProductScratch);
  // A bias's gradient alone: 1000 rows are 63 slices of at most 16; a sum of 4 bytes a slice and column.
  OneOp bias(OpKind::linear_backward_weight, {{fixed(1000), fixed(640)}, {fixed(1000), fixed(64)}},
             {{}, {fixed(640)}}, LinearAttributes{});
  EXPECT_EQ(bias.workspace_bytes(), 63 * 640 * 4);
}

// x [100,64] in 8 bits and a scale a row, both in whole units of 256 bytes; for dx of W [320,64] the
// gradient's rows, W^T and a scale a row of it.
TEST(PlannedCard, ProductsInFp8TakeWhatIsCast) {
  auto product = [](OpKind kind, int64_t inner) {
    OneOp one(kind, {{fixed(100), fixed(inner)}, {fixed(320), fixed(64)}}, {{fixed(100), fixed(384 - inner)}},
              LinearAttributes{});
    one.program.buffer(one.op.inputs[1]).format = kFp8;
    one.program.buffer(one.op.inputs[1]).format.dtype = DType::bf16;
    return one;
  };
  EXPECT_EQ(product(OpKind::linear, 64).workspace_bytes(), kProductScratch + 6400 + 512);
  EXPECT_EQ(product(OpKind::linear_backward_input, 320).workspace_bytes(),
            kProductScratch + 32000 + 512 + 64 * 320 + 256);
}

TEST(PlannedCard, ProductsInFp8AreForAdaAndNewer) {
  OneOp one(OpKind::linear, {{fixed(100), fixed(64)}, {fixed(320), fixed(64)}}, {{fixed(100), fixed(320)}},
            LinearAttributes{});
  Buffer& weight = one.program.buffer(one.op.inputs[1]);
  weight.format = kFp8;
  auto problem_on = [&](const char* name, DType dtype) {
    one.program.buffer(one.op.inputs[0]).format = dtype;
    one.program.buffer(one.op.outputs[0]).format = dtype;
    weight.format.dtype = dtype;
    return PlannedCard(&find_catalogue_card(name)).find_unsupported(one.program, one.op);
  };
  for (const char* name : {"H200", "RTX 4090", "RTX 5090", "B200", "L40S"}) {
    EXPECT_EQ(problem_on(name, DType::bf16), "") << name;
  }
  EXPECT_EQ(problem_on("H200", DType::f16), "");
  EXPECT_NE(problem_on("RTX 4090", DType::f16).find("(compute capability 8.9) that are too large for fp16"),
            std::string::npos);
  for (const char* name : {"A100 80GB", "RTX 3090", "T4"}) {
    EXPECT_NE(problem_on(name, DType::bf16).find("8.9 (Ada: RTX 40, L4, L40S) and newer do; this one has"),
              std::string::npos)
        << name;
  }
  EXPECT_EQ(one.unsupported(), "");
  weight.parts = {{{"a"}, 0, 24}, {{"b"}, 24, 296}};
  EXPECT_EQ(one.unsupported(),
            "model.compute: fp8 takes weights whose rows and columns are multiples of 16 on a card, but \"" +
                weight.name + "\" is 320 x 64: leave model.compute out");
}

// At most 264 MiB of values at once, which are 37,888 x 3,584 in bf16; what is larger in slices of multiples
// of 256 that differ by little: of 55,296 x 5,120 three of 18,432 rows, or of 1,792 columns.
TEST(PlannedCard, WeightsOfCodesAreMultipliedInSlices) {
  auto coded = [](OpKind kind, int64_t rows, int64_t columns) {
    OneOp product(kind, {{fixed(8), fixed(columns)}, {fixed(rows), fixed(columns)}},
                  {{fixed(8), fixed(rows)}}, LinearAttributes{});
    Format& format = product.program.buffer(product.op.inputs[1]).format;
    format = kNf4Double;
    format.dtype = DType::bf16;
    EXPECT_EQ(product.unsupported(), "");
    return product.workspace_bytes();
  };
  EXPECT_EQ(coded(OpKind::linear, 640, 512), 640 * 512 * 2 + kProductScratch);
  EXPECT_EQ(coded(OpKind::linear, 37888, 3584), 37888 * 3584 * 2 + kProductScratch);
  EXPECT_EQ(coded(OpKind::linear_backward_input, 37888, 3584), 37888 * 3584 * 2 + kProductScratch);
  EXPECT_EQ(coded(OpKind::linear, 55296, 5120), 18432 * 5120 * 2 + kProductScratch);
  EXPECT_EQ(coded(OpKind::linear_backward_input, 55296, 5120), 1792 * 55296 * 2 + kProductScratch);
  // Where even slices in whole units would be too large, the last is the smaller: 1,110 columns fit.
  EXPECT_EQ(coded(OpKind::linear_backward_input, 124600, 2200), 1024 * 124600 * 2 + kProductScratch);
}

TEST(PlannedCard, TheLossHeadHoldsAChunkOfLogits) {
  // Chunks of 128 asked for: 128 rows of 1001 logits, padded to 1008; 2048 losses in fp64; 128 rows of x in
  // bf16; a product.
  OneOp head(OpKind::loss_head, {{fixed(2048), fixed(64)}, {fixed(1001), fixed(64)}, {fixed(2048)}},
             {{fixed(1)}}, LossAttributes{.chunk_tokens = 128});
  EXPECT_EQ(head.workspace_bytes(), 128 * 1008 * 4 + 2048 * 8 + 128 * 64 * 2 + kProductScratch);
}

// Two numbers a query and head. For the gradient in one pass the sums of dq in fp32, with up to 8 rows more a
// sequence, a count for each tile of 64 queries and head, and two numbers for each tile of 64 keys; one tile
// more a sequence of both. For keys that blocks share, dk and dv in fp32, with a tile of 128 more a sequence,
// up to 28 MiB, and two counts for each tile of 64.
TEST(PlannedCard, AttentionsGradientKeepsSumsOfDq) {
  int64_t rows = 4096 * 28 * 2 * 4;
  int64_t dq = (4096 + 2 * 8) * 28 * 128 * 4;
  int64_t dkv = 28 << 20;
  EXPECT_EQ(attention_backward(attention_of(28, 128), 4096, 2).workspace_bytes(),
            rows + align_up(((4096 / 64 + 2) * 28 + dkv / (64 * 2 * 128 * 4) * 2) * 4) +
                align_up((4096 / 64 + 2) * 8) + dq + dkv);
  AttentionAttributes grouped = attention_of(28, 128);
  grouped.kv_heads = 4;
  EXPECT_EQ(attention_backward(grouped, 512, 1).workspace_bytes(),
            512 * 28 * 2 * 4 + align_up((9 * 28 + 10 * 4 * 2) * 4) + align_up(9 * 8) +
                (512 + 8) * 28 * 128 * 4 + (512 + 128) * 4 * 2 * 128 * 4);
  // T5's biases: also partial sums of 32 buckets a head, for tiles of 16 queries and one more a sequence.
  // Blocks share no keys there.
  AttentionAttributes biased = attention_of(32, 64);
  biased.causal = false;
  biased.relative_buckets = 32;
  biased.relative_max_distance = 128;
  int64_t partials = (4096 / 16 + 8) * 32 * 32 * 4;
  EXPECT_EQ(attention_backward(biased, 4096, 8).workspace_bytes(),
            4096 * 32 * 2 * 4 + partials + align_up((4096 / 64 + 8) * 32 * 4) +
                align_up((4096 / 64 + 8) * 8) + (4096 + 8 * 8) * 32 * 64 * 4);
  // Gradients that no kernel makes in one pass: with dropout, and of large heads.
  AttentionAttributes dropped = attention_of(28, 128);
  dropped.dropout.probability = 0.1F;
  EXPECT_EQ(attention_backward(dropped, 4096, 2).workspace_bytes(), rows);
  EXPECT_EQ(attention_backward(attention_of(28, 256), 4096, 2).workspace_bytes(), rows);
}

TEST(PlannedCard, NormsKeepPartialSumsOnlyForWeightsThatAreTrained) {
  OneOp::Shapes inputs = {{fixed(100), fixed(512)}, {fixed(512)}, {fixed(100), fixed(512)}};
  OneOp frozen(OpKind::rms_norm_backward, inputs, {{fixed(100), fixed(512)}, {}}, NormAttributes{});
  EXPECT_EQ(frozen.workspace_bytes(), 0);
  // 25 slices of up to 4 rows.
  OneOp trained(OpKind::rms_norm_backward, inputs, {{fixed(100), fixed(512)}, {fixed(512)}},
                NormAttributes{});
  EXPECT_EQ(trained.workspace_bytes(), 25 * 512 * 4);
}

TEST(PlannedCard, SaysWhatNoKernelDoes) {
  EXPECT_EQ(attention_backward(attention_of(4, 256), 64, 1).unsupported(), "");
  std::string wide = attention_backward(attention_of(4, 264), 64, 1).unsupported();
  EXPECT_NE(wide.find("head sizes above 256"), std::string::npos) << wide;
  OneOp mixed(OpKind::linear, {{fixed(4), fixed(8)}}, {{fixed(4), fixed(8)}}, LinearAttributes{});
  mixed.op.inputs.push_back(mixed.add({fixed(8), fixed(8)}, DType::f32));
  EXPECT_NE(mixed.unsupported().find("bf16"), std::string::npos) << mixed.unsupported();
}

}  // namespace
}  // namespace snug
