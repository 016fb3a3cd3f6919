// Attention and its gradient against the CPU: head sizes, GQA, windows, cross attention, T5's relative bias,
// all formats, lengths that fill no tile, dropout.
#include <numeric>

#include "cuda/on_both.h"

namespace snug {
namespace {

struct Case {
  const char* name;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  std::vector<int64_t> queries;    // per sequence
  std::vector<int64_t> keys = {};  // empty: as many as queries, and q, k, v share one buffer
  bool causal = true;
  int64_t window = 0;
  int64_t buckets = 0;
  float dropout = 0;

  bool fused() const { return keys.empty(); }
  const std::vector<int64_t>& key_counts() const { return fused() ? queries : keys; }
};

std::vector<int64_t> offsets_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> result = {0};
  for (int64_t count : counts) {
    result.push_back(result.back() + count);
  }
  return result;
}

class CudaAttention : public testing::TestWithParam<std::tuple<Case, DType>> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
};

struct Layout {
  explicit Layout(const Case& c) {
    int64_t q_width = c.heads * c.head_dim;
    int64_t kv_width = c.kv_heads * c.head_dim;
    attributes = {.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim};
    attributes.scale = c.buckets > 0 ? 1.0F : 1.0F / std::sqrt(static_cast<float>(c.head_dim));
    attributes.causal = c.causal;
    attributes.window = c.window;
    attributes.relative_buckets = c.buckets;
    attributes.relative_max_distance = 20;
    attributes.bidirectional_buckets = !c.causal;
    attributes.dropout = {c.dropout, 11};
    attributes.k_column = c.fused() ? q_width : 0;
    attributes.v_column = attributes.k_column + kv_width;
    q_columns = q_width + (c.fused() ? 2 * kv_width : 0);
    kv_columns = c.fused() ? q_columns : 2 * kv_width;
  }
  AttentionAttributes attributes;
  int64_t q_columns;
  int64_t kv_columns;
};

Program attention_program(const Case& c, DType dtype) {
  Layout layout(c);
  auto count = static_cast<int64_t>(c.queries.size());
  int64_t rows = offsets_of(c.queries).back();
  int64_t key_rows = offsets_of(c.key_counts()).back();
  Dims out = {fixed(rows), fixed(c.heads * c.head_dim)};
  Dims q_dims = {fixed(rows), fixed(layout.q_columns)};
  Dims kv_dims = {fixed(key_rows), fixed(layout.kv_columns)};
  Builder builder("attention");
  BufferId q = builder.input("q", dtype, q_dims);
  BufferId kv = c.fused() ? q : builder.input("kv", dtype, kv_dims);
  BufferId q_offsets = builder.input("q_offsets", DType::i32, {fixed(count + 1)});
  BufferId kv_offsets = builder.input("kv_offsets", DType::i32, {fixed(count + 1)});
  BufferId o = builder.temporary("o", dtype, out);
  BufferId lse = builder.temporary("lse", DType::f32, {fixed(rows), fixed(c.heads)});
  BufferId dout = builder.input("dout", dtype, out);
  BufferId dq = builder.temporary("dq", dtype, q_dims);
  BufferId dkv = c.fused() ? dq : builder.temporary("dkv", dtype, kv_dims);
  std::vector<BufferId> inputs = {q, kv, q_offsets, kv_offsets};
  std::vector<BufferId> backward = {q, kv, q_offsets, kv_offsets, o, lse, dout};
  std::vector<BufferId> gradients = {dq, dkv};
  if (c.buckets > 0) {
    Dims bias_dims = {fixed(c.buckets), fixed(c.heads)};
    BufferId bias = builder.weight("bias", dtype, bias_dims, {});
    inputs.push_back(bias);
    backward.push_back(bias);
    gradients.push_back(builder.persistent("dbias", DType::f32, bias_dims, Role::gradients));
  }
  if (c.dropout > 0) {
    BufferId random = builder.input("random", DType::i64, {fixed(3)});
    inputs.resize(5, kNoBuffer);
    backward.resize(8, kNoBuffer);
    inputs.push_back(random);
    backward.push_back(random);
  }
  builder.append(OpKind::attention, "attention", inputs, {o, lse}, layout.attributes);
  Op& op = builder.append(OpKind::attention_backward, "backward", backward, gradients, layout.attributes);
  op.accumulates = c.buckets > 0 ? 4U : 0U;
  return builder.finish();
}

TEST_P(CudaAttention, ForwardAndBackward) {
  const auto& [c, dtype] = GetParam();
  OnBoth both(attention_program(c, dtype));
  both.randomise("q", 1, 0.7F);
  both.randomise("dout", 3, 0.5F);
  both.set_ints("q_offsets", offsets_of(c.queries));
  both.set_ints("kv_offsets", offsets_of(c.key_counts()));
  if (!c.fused()) {
    both.randomise("kv", 2, 0.7F);
  }
  if (c.dropout > 0) {
    both.set_ints("random", {5, 8, 1234567});
  }
  if (c.buckets > 0) {
    both.randomise("bias", 4);
    both.set("dbias", std::vector<float>(static_cast<size_t>(c.buckets * c.heads), 0.5F));
  }
  both.run();
  double tolerance = dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 2e-3 : 1.5e-2;
  both.expect_close_norms("o", tolerance);
  both.expect_close_values("lse", tolerance);
  both.expect_close_norms("dq", 1.5 * tolerance);
  if (!c.fused()) {
    both.expect_close_norms("dkv", 1.5 * tolerance);
  }
  if (c.buckets > 0) {
    both.expect_close_norms("dbias", 2 * tolerance);
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Case, DType>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::string(name_of(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttention,
    testing::Combine(
        testing::Values(Case{"causal64", 4, 4, 64, {65, 1, 130}}, Case{"causal80", 2, 2, 80, {33, 70}},
                        Case{"gqa128", 6, 2, 128, {129, 40, 3}}, Case{"gqa96", 4, 1, 96, {77}},
                        Case{"wide256", 2, 1, 256, {70, 9}}, Case{"small16", 3, 3, 16, {19, 5}},
                        Case{"window", 2, 2, 64, {150, 30}, {}, true, 17},
                        Case{"full", 3, 3, 64, {50, 66, 1}, {}, false},
                        Case{"cross", 4, 4, 64, {20, 1, 65}, {40, 70, 3}, false},
                        Case{"bias_encoder", 3, 3, 64, {50, 66, 1}, {}, false, 0, 8},
                        Case{"bias_decoder", 3, 3, 64, {40, 90}, {}, true, 0, 8},
                        Case{"gqa7_long", 7, 1, 128, {300, 33}}, Case{"gqa7_64_long", 7, 1, 64, {270}},
                        Case{"window_long", 2, 1, 128, {400}, {}, true, 70},
                        Case{"cross_long", 2, 1, 128, {100, 260}, {300, 130}, false},
                        Case{"encoder_long", 2, 2, 64, {300, 140}, {}, false, 0, 8},
                        Case{"decoder_long", 2, 2, 64, {300}, {}, true, 0, 8},
                        Case{"drop64", 4, 4, 64, {65, 1, 130}, {}, true, 0, 0, 0.1F},
                        Case{"drop_gqa128", 6, 2, 128, {129, 40, 3}, {}, true, 0, 0, 0.3F},
                        Case{"drop_wide256", 2, 1, 256, {70, 9}, {}, true, 0, 0, 0.5F},
                        Case{"drop_odd", 3, 3, 20, {19, 5}, {}, true, 0, 0, 0.3F},
                        Case{"drop_window", 2, 2, 64, {150, 30}, {}, true, 17, 0, 0.3F},
                        Case{"drop_cross", 4, 4, 64, {20, 1, 65}, {40, 70, 3}, false, 0, 0, 0.2F},
                        Case{"drop_encoder", 3, 3, 64, {50, 66, 1}, {}, false, 0, 8, 0.1F},
                        Case{"drop_decoder", 3, 3, 64, {40, 90}, {}, true, 0, 8, 0.1F},
                        // Tiles of keys that begin within a group of the mask.
                        Case{"drop_window_odd", 2, 2, 64, {300, 30}, {}, true, 14, 0, 0.3F},
                        Case{"drop_gqa_long", 7, 1, 64, {270}, {}, true, 0, 0, 0.1F},
                        Case{"drop_cross_long", 2, 2, 64, {100, 260}, {300, 130}, false, 0, 0, 0.2F},
                        Case{"drop_encoder_long", 2, 2, 64, {300, 140}, {}, false, 0, 8, 0.1F},
                        Case{"drop_decoder_long", 2, 2, 64, {300}, {}, true, 0, 8, 0.1F}),
        testing::Values(DType::f32, DType::bf16, DType::f16)),
    name_of_case);

}  // namespace
}  // namespace snug
