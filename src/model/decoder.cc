// The forward program that the decoder-only families share: RMS norm, rotary positions, grouped attention, a
// gated MLP. What differs between them is in the ModelSpec.
#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/rope.h"
#include "ops/table.h"
#include "program/builder.h"

namespace snug {
namespace {

// Rows of logits a chunk: about 16 MiB of fp32 logits, which keeps the product efficient and the cache warm.
int64_t chosen_chunk(const ModelSpec& spec, int64_t max_tokens) {
  int64_t rows = (int64_t{16} << 20) / (4 * spec.vocabulary);
  return std::clamp<int64_t>(rows, std::min<int64_t>(32, max_tokens), max_tokens);
}

class DecoderBuilder {
 public:
  DecoderBuilder(const ModelSpec& spec, const ForwardOptions& options)
      : spec_(spec),
        options_(options),
        builder_(options.program_name),
        tokens_{Extent::tokens, options.max_tokens},
        sequences_{Extent::sequences, options.max_sequences} {}

  Program build() {
    BufferId ids = builder_.input("ids", DType::i32, {tokens_});
    positions_ = builder_.input("positions", DType::i32, {tokens_});
    offsets_ = builder_.input("offsets", DType::i32, {{Extent::offsets, options_.max_sequences + 1}});
    frequencies_ = frequencies();

    BufferId table = embedding_table();
    BufferId x = activation("embedding", spec_.width);
    builder_.append(OpKind::embedding, "embedding", {table, ids}, {x});
    for (int64_t layer = 0; layer < spec_.layers; ++layer) {
      builder_.set_layer(static_cast<int>(layer));
      x = block(x, layer);
    }
    builder_.set_layer(kNoLayer);
    BufferId normed = norm(x, "final_norm", "model.norm.weight");
    BufferId head = spec_.tied_embeddings ? table : head_weight();
    if (options_.goal == Goal::loss) {
      append_loss(normed, head);
    } else {
      append_logits(normed, head);
    }
    Program program = builder_.finish();
    verify_with_shapes(program);
    return program;
  }

 private:
  BufferId activation(std::string name, int64_t columns) {
    return builder_.temporary(std::move(name), options_.dtype, {tokens_, fixed(columns)});
  }

  // Folders saved from the bare model leave the "model." prefix out.
  static std::vector<std::string> file_names(const std::string& name) {
    return {name, name.substr(std::string_view("model.").size())};
  }

  BufferId embedding_table() {
    std::vector<std::string> names = file_names("model.embed_tokens.weight");
    if (spec_.tied_embeddings) {
      names.emplace_back("lm_head.weight");  // some folders store the tied matrix under the head's name
    }
    return builder_.weight("model.embed_tokens.weight", options_.dtype,
                           {fixed(spec_.vocabulary), fixed(spec_.width)}, {{names, 0, spec_.vocabulary}});
  }

  BufferId head_weight() {
    return builder_.weight("lm_head.weight", options_.dtype, {fixed(spec_.vocabulary), fixed(spec_.width)},
                           {{{"lm_head.weight"}, 0, spec_.vocabulary}});
  }

  BufferId frequencies() {
    BufferId id = builder_.persistent("inverse_frequencies", DType::f32, {fixed(spec_.head_dim / 2)},
                                      Role::base_weights);
    builder_.program().buffer(id).constant = rope_frequencies(spec_, options_.max_length_tokens);
    return id;
  }

  BufferId norm(BufferId x, const std::string& name, const std::string& weight_name) {
    BufferId w = builder_.weight(weight_name, options_.dtype, {fixed(spec_.width)},
                                 {{file_names(weight_name), 0, spec_.width}});
    BufferId y = activation(name, spec_.width);
    builder_.append(OpKind::rms_norm, name, {x, w}, {y},
                    NormAttributes{static_cast<float>(spec_.norm_epsilon)});
    return y;
  }

  struct Projection {
    std::string file_name;  // without ".weight"
    int64_t rows;
  };

  // Projections of the same input as one product, their weights side by side.
  BufferId linear(BufferId x, const std::string& name, const std::vector<Projection>& projections,
                  bool bias) {
    std::vector<TensorPart> weight_parts;
    std::vector<TensorPart> bias_parts;
    int64_t rows = 0;
    for (const Projection& projection : projections) {
      weight_parts.push_back({file_names(projection.file_name + ".weight"), rows, projection.rows});
      bias_parts.push_back({file_names(projection.file_name + ".bias"), rows, projection.rows});
      rows += projection.rows;
    }
    Dim columns = builder_.buffer(x).dims[1];
    BufferId w =
        builder_.weight(name + ".weight", options_.dtype, {fixed(rows), columns}, std::move(weight_parts));
    std::vector<BufferId> inputs = {x, w};
    if (bias) {
      inputs.push_back(builder_.weight(name + ".bias", options_.dtype, {fixed(rows)}, std::move(bias_parts)));
    }
    BufferId y = activation(name, rows);
    builder_.append(OpKind::linear, name, std::move(inputs), {y}, LinearAttributes{});
    return y;
  }

  BufferId add(BufferId a, BufferId b, const std::string& name) {
    BufferId sum = activation(name, spec_.width);
    builder_.append(OpKind::add, name, {a, b}, {sum});
    return sum;
  }

  BufferId block(BufferId x, int64_t layer) {
    std::string name = fmt::format("layers.{}.", layer);
    std::string file = fmt::format("model.layers.{}.", layer);
    BufferId normed = norm(x, name + "attention_norm", file + "input_layernorm.weight");
    BufferId attended = attention(normed, layer, name, file + "self_attn.");
    x = add(x, attended, name + "attention_sum");
    normed = norm(x, name + "mlp_norm", file + "post_attention_layernorm.weight");
    return add(x, mlp(normed, name, file + "mlp."), name + "mlp_sum");
  }

  BufferId attention(BufferId x, int64_t layer, const std::string& name, const std::string& file) {
    int64_t q_width = spec_.heads * spec_.head_dim;
    int64_t kv_width = spec_.kv_heads * spec_.head_dim;
    BufferId qkv =
        linear(x, name + "qkv",
               {{file + "q_proj", q_width}, {file + "k_proj", kv_width}, {file + "v_proj", kv_width}},
               spec_.qkv_bias);
    if (spec_.head_norms) {
      qkv = head_norm(qkv, name, file);
    }
    BufferId rotated = activation(name + "rotated", q_width + 2 * kv_width);
    builder_.append(OpKind::rope, name + "rope", {qkv, positions_, frequencies_}, {rotated},
                    RopeAttributes{spec_.heads + spec_.kv_heads, spec_.head_dim});
    BufferId mixed = activation(name + "attention", q_width);
    BufferId lse = builder_.temporary(name + "lse", DType::f32, {tokens_, fixed(spec_.heads)});
    AttentionAttributes attributes{
        .heads = spec_.heads,
        .kv_heads = spec_.kv_heads,
        .head_dim = spec_.head_dim,
        .k_column = q_width,
        .v_column = q_width + kv_width,
        .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim)),
        .window = spec_.windows.empty() ? 0 : spec_.windows[static_cast<size_t>(layer)],
    };
    builder_.append(OpKind::attention, name + "attention", {rotated, rotated, offsets_, offsets_},
                    {mixed, lse}, attributes);
    return linear(mixed, name + "attention_out", {{file + "o_proj", spec_.width}}, spec_.attention_out_bias);
  }

  // Each query and key head is normalised on its own, before the rotation.
  BufferId head_norm(BufferId qkv, const std::string& name, const std::string& file) {
    auto weight = [&](const char* which) {
      std::string file_name = file + which;
      return builder_.weight(file_name, options_.dtype, {fixed(spec_.head_dim)},
                             {{file_names(file_name), 0, spec_.head_dim}});
    };
    BufferId q_weight = weight("q_norm.weight");
    BufferId k_weight = weight("k_norm.weight");
    BufferId y = activation(name + "head_norm", builder_.buffer(qkv).dims[1].max);
    builder_.append(OpKind::head_norm, name + "head_norm", {qkv, q_weight, k_weight}, {y},
                    HeadNormAttributes{spec_.heads, spec_.kv_heads, static_cast<float>(spec_.norm_epsilon)});
    return y;
  }

  BufferId mlp(BufferId x, const std::string& name, const std::string& file) {
    BufferId gate_up = linear(
        x, name + "gate_up", {{file + "gate_proj", spec_.inner_width}, {file + "up_proj", spec_.inner_width}},
        spec_.mlp_bias);
    BufferId gated = activation(name + "gated", spec_.inner_width);
    builder_.append(OpKind::gated_activation, name + "gated", {gate_up}, {gated}, GateAttributes{});
    return linear(gated, name + "down", {{file + "down_proj", spec_.width}}, spec_.mlp_bias);
  }

  void append_loss(BufferId x, BufferId head) {
    BufferId targets = builder_.input("targets", DType::i32, {tokens_});
    BufferId scale = builder_.input("scale", DType::f32, {fixed(1)});
    BufferId loss = builder_.persistent("metrics.loss_sum", DType::f64, {fixed(1)}, Role::batch);
    int64_t chunk = options_.loss_chunk_tokens > 0 ? std::min(options_.loss_chunk_tokens, options_.max_tokens)
                                                   : chosen_chunk(spec_, options_.max_tokens);
    builder_.append(OpKind::loss_head, "head", {x, head, targets, scale}, {loss}, LossAttributes{chunk})
        .accumulates = 1;
  }

  void append_logits(BufferId x, BufferId head) {
    BufferId rows = builder_.input("last_rows", DType::i32, {sequences_});
    BufferId last = builder_.temporary("last", options_.dtype, {sequences_, fixed(spec_.width)});
    builder_.append(OpKind::select_rows, "last", {x, rows}, {last});
    BufferId logits = builder_.temporary("logits", options_.dtype, {sequences_, fixed(spec_.vocabulary)});
    builder_.program().buffer(logits).lifetime = Lifetime::output;
    builder_.append(OpKind::linear, "head", {last, head}, {logits}, LinearAttributes{});
  }

  const ModelSpec& spec_;
  const ForwardOptions& options_;
  Builder builder_;
  Dim tokens_;
  Dim sequences_;
  BufferId positions_ = kNoBuffer;
  BufferId offsets_ = kNoBuffer;
  BufferId frequencies_ = kNoBuffer;
};

}  // namespace

Program build_decoder(const ModelSpec& spec, const ForwardOptions& options) {
  return DecoderBuilder(spec, options).build();
}

}  // namespace snug
