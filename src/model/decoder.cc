// The forward program that the decoder-only families share: RMS norm, rotary positions, grouped attention, a
// gated MLP. What differs between them is in the ModelSpec.
#include "model/decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "model/forward_builder.h"
#include "model/rope.h"
#include "ops/table.h"
#include "program/names.h"

namespace snug {
namespace {

class DecoderBuilder : ForwardBuilder {
 public:
  using ForwardBuilder::ForwardBuilder;

  Program build() {
    BufferId ids = builder_.input(kIds, DType::i32, {tokens_});
    positions_ = builder_.input(kPositions, DType::i32, {tokens_});
    sequence_offsets_ = builder_.input(kOffsets, DType::i32, {offsets_});
    frequencies_ = frequencies();

    BufferId table = embedding_table();
    BufferId x = dropped(embed(table, ids, "embedding"), options_.dropout.embedding);
    for (int64_t layer = 0; layer < spec_.layers; ++layer) {
      builder_.set_layer(static_cast<int>(layer));
      x = block(x, layer);
    }
    builder_.set_layer(kNoLayer);
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

  BufferId frequencies() {
    BufferId id = builder_.persistent("inverse_frequencies", DType::f32, {fixed(spec_.head_dim / 2)},
                                      Role::base_weights, Origin::constant);
    builder_.program().buffer(id).constant = rope_frequencies(spec_, options_.max_length_tokens);
    return id;
  }

  BufferId block(BufferId x, int64_t layer) {
    std::string name = fmt::format("layers.{}.", layer);
    std::string file = fmt::format("model.layers.{}.", layer);
    BufferId normed = norm(x, name + "attention_norm", file + "input_layernorm.weight");
    BufferId mixed = self_attention(normed, layer, name, file + "self_attn.");
    x = add(x, dropped(mixed, options_.dropout.residual), name + "attention_sum");
    normed = norm(x, name + "mlp_norm", file + "post_attention_layernorm.weight");
    file += "mlp.";
    std::vector<Projection> gate_and_up = {{file + "gate_proj", spec_.inner_width},
                                           {file + "up_proj", spec_.inner_width}};
    if (spec_.fused_projections) {
      gate_and_up = {{file + "gate_up_proj", 2 * spec_.inner_width}};
    }
    BufferId changed =
        gated_mlp(normed, name, gate_and_up, {file + "down_proj", spec_.width}, Activation::silu);
    return add(x, dropped(changed, options_.dropout.residual), name + "mlp_sum");
  }

  BufferId self_attention(BufferId x, int64_t layer, const std::string& name, const std::string& file) {
    int64_t q_width = spec_.heads * spec_.head_dim;
    int64_t kv_width = spec_.kv_heads * spec_.head_dim;
    std::vector<Projection> projections = {
        {file + "q_proj", q_width}, {file + "k_proj", kv_width}, {file + "v_proj", kv_width}};
    if (spec_.fused_projections) {
      projections = {{file + "qkv_proj", q_width + 2 * kv_width}};
    }
    BufferId qkv = linear(x, name + "qkv", projections, spec_.qkv_bias);
    if (spec_.head_norms) {
      qkv = head_norm(qkv, name, file);
    }
    BufferId rotated = activation(name + "rotated", qkv, q_width + 2 * kv_width);
    builder_.append(OpKind::rope, name + "rope", {qkv, positions_, frequencies_}, {rotated},
                    RopeAttributes{spec_.heads + spec_.kv_heads, spec_.head_dim});
    AttentionAttributes attributes{
        .heads = spec_.heads,
        .kv_heads = spec_.kv_heads,
        .head_dim = spec_.head_dim,
        .k_column = q_width,
        .v_column = q_width + kv_width,
        .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim)),
        .window = spec_.windows.empty() ? 0 : spec_.windows[static_cast<size_t>(layer)],
    };
    BufferId mixed =
        attention({rotated, rotated, sequence_offsets_, sequence_offsets_}, name + "attention", attributes);
    return linear(mixed, name + "attention_out", {{file + "o_proj", spec_.width}}, spec_.attention_out_bias);
  }

  // Each query and key head is normalised on its own, before the rotation.
  BufferId head_norm(BufferId qkv, const std::string& name, const std::string& file) {
    BufferId q_weight = weight(file + "q_norm.weight", {fixed(spec_.head_dim)});
    BufferId k_weight = weight(file + "k_norm.weight", {fixed(spec_.head_dim)});
    BufferId y = activation(name + "head_norm", qkv, builder_.buffer(qkv).dims[1].max);
    builder_.append(OpKind::head_norm, name + "head_norm", {qkv, q_weight, k_weight}, {y},
                    HeadNormAttributes{spec_.heads, spec_.kv_heads, static_cast<float>(spec_.norm_epsilon)});
    return y;
  }

  BufferId positions_ = kNoBuffer;
  BufferId sequence_offsets_ = kNoBuffer;
  BufferId frequencies_ = kNoBuffer;
};

}  // namespace

Program build_decoder(const ModelSpec& spec, const ForwardOptions& options) {
  return DecoderBuilder(spec, options).build();
}

}  // namespace snug
