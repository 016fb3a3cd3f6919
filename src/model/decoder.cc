// The usual decoder.
#include "model/decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "model/stack_builder.h"
#include "ops/table.h"
#include "program/names.h"

namespace snug {
namespace {

class DecoderBuilder : StackBuilder {
 public:
  using StackBuilder::StackBuilder;

  Program build() {
    BufferId ids = builder_.input(kIds, DType::i32, {tokens_});
    StackInputs inputs{.name = "layers"};
    inputs.positions = builder_.input(kPositions, DType::i32, {tokens_});
    inputs.offsets = builder_.input(kOffsets, DType::i32, {offsets_});
    append_frequencies(spec_.decoder);

    BufferId table = embedding_table();
    BufferId x = dropped(embed(table, ids, "embedding"), options_.dropout.embedding);
    x = append_layers(spec_.decoder, inputs, x);
    BufferId normed = norm(x, "final_norm", "model.norm.weight");
    append_goal(normed, spec_.tied_embeddings ? table : weight("lm_head.weight", vocabulary_dims()));
    Program program = builder_.finish();
    verify_with_shapes(program);
    return program;
  }

 private:
  Dims vocabulary_dims() const { return {fixed(spec_.vocabulary), fixed(spec_.width)}; }

  BufferId embedding_table() {
    std::vector<std::string> other_names;
    if (spec_.tied_embeddings) {
      other_names.emplace_back("lm_head.weight");  // some folders store the tied matrix under the head's name
    }
    return weight("model.embed_tokens.weight", vocabulary_dims(), std::move(other_names));
  }
};

}  // namespace

DecoderLayer usual_layer(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t inner_width) {
  return {.attention = {.sees = Sees::before,
                        .heads = heads,
                        .kv_heads = kv_heads,
                        .head_dim = head_dim,
                        .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
                        .rope = Rope{},
                        .module = "self_attn",
                        .qkv = {"q_proj", "k_proj", "v_proj"},
                        .out = "o_proj"},
          .mlp = {.inner_width = inner_width,
                  .activation = Activation::silu,
                  .module = "mlp",
                  .gate_and_up = {"gate_proj", "up_proj"},
                  .down = "down_proj"}};
}

std::vector<Layer> repeat(const DecoderLayer& layer, int64_t count, const std::vector<int64_t>& windows) {
  std::vector<Layer> layers;
  for (int64_t i = 0; i < count; ++i) {
    Attention attention = layer.attention;
    if (!windows.empty()) {
      attention.window = windows.at(static_cast<size_t>(i));
    }
    layers.push_back({.module = fmt::format("model.layers.{}.", i),
                      .blocks = {{.norm_before = "input_layernorm", .part = std::move(attention)},
                                 {.norm_before = "post_attention_layernorm", .part = layer.mlp}}});
  }
  return layers;
}

Program build_decoder(const ModelSpec& spec, const ForwardOptions& options) {
  return DecoderBuilder(spec, options).build();
}

}  // namespace snug
