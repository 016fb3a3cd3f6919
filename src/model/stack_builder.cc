// From rows to ops.
#include "model/stack_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "model/rope.h"

namespace snug {
namespace {

// What the program calls a block: its norms and its sum are named after it.
std::string_view name_of(const Block& block) {
  const auto* attention = std::get_if<Attention>(&block.part);
  if (attention == nullptr) {
    return "mlp";
  }
  return attention->sees == Sees::source ? "cross" : "attention";
}

// `names` of one product: one a width, or one for all of them.
std::vector<Projection> projections_of(const std::string& module, const std::vector<std::string>& names,
                                       const std::vector<int64_t>& widths) {
  SNUG_CHECK(names.size() == 1 || names.size() == widths.size(), "names of the projections in " + module);
  std::vector<Projection> projections;
  for (size_t i = 0; i < names.size(); ++i) {
    int64_t rows = names.size() == 1 ? std::accumulate(widths.begin(), widths.end(), int64_t{0}) : widths[i];
    projections.push_back({module + names[i], rows});
  }
  return projections;
}

AttentionAttributes attributes_of(const Attention& attention) {
  AttentionAttributes attributes{.heads = attention.heads,
                                 .kv_heads = attention.kv_heads,
                                 .head_dim = attention.head_dim,
                                 .scale = attention.scale,
                                 .causal = attention.sees == Sees::before,
                                 .window = attention.window};
  if (attention.relative) {
    attributes.relative_buckets = attention.relative->buckets;
    attributes.relative_max_distance = attention.relative->max_distance;
    attributes.bidirectional_buckets = attention.sees == Sees::all;
  }
  return attributes;
}

}  // namespace

void StackBuilder::append_frequencies(const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    for (const Block& block : layer.blocks) {
      const auto* attention = std::get_if<Attention>(&block.part);
      if (attention == nullptr || !attention->rope || frequencies_of(*attention) != kNoBuffer) {
        continue;
      }
      std::string name = "inverse_frequencies";
      if (!frequencies_.empty()) {
        name += fmt::format(".{}", frequencies_.size());
      }
      BufferId id = builder_.persistent(name, DType::f32, {fixed(attention->head_dim / 2)},
                                        Role::base_weights, Origin::constant);
      builder_.program().buffer(id).constant =
          rope_frequencies(*attention->rope, attention->head_dim, options_.max_length_tokens, spec_.source);
      frequencies_.push_back({*attention->rope, attention->head_dim, id});
    }
  }
}

BufferId StackBuilder::frequencies_of(const Attention& attention) const {
  auto found = std::find_if(frequencies_.begin(), frequencies_.end(), [&](const Frequencies& made) {
    return made.rope == *attention.rope && made.head_dim == attention.head_dim;
  });
  return found == frequencies_.end() ? kNoBuffer : found->buffer;
}

BufferId StackBuilder::append_layers(const std::vector<Layer>& layers, const StackInputs& inputs,
                                     BufferId x) {
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    builder_.set_layer(next_layer_++);
    layer_name_ = fmt::format("{}.{}.", inputs.name, layer);
    for (const Block& block : layers[layer].blocks) {
      x = append_block(block, layers[layer].module, inputs, x);
    }
  }
  builder_.set_layer(kNoLayer);
  return x;
}

BufferId StackBuilder::append_block(const Block& block, const std::string& module, const StackInputs& inputs,
                                    BufferId x) {
  std::string name = fmt::format("{}{}", layer_name_, name_of(block));
  auto normed = [&](BufferId value, const std::string& weight, const char* suffix) {
    return weight.empty() ? value : norm(value, name + suffix, fmt::format("{}{}.weight", module, weight));
  };
  BufferId changed = std::visit(
      [&](const auto& part) {
        return append_part(part, module, inputs, normed(x, block.norm_before, "_norm"));
      },
      block.part);
  changed = normed(changed, block.norm_after, "_norm_after");
  return add(x, dropped(changed, options_.dropout.residual), name + "_sum");
}

BufferId StackBuilder::append_part(const Attention& attention, const std::string& module,
                                   const StackInputs& inputs, BufferId x) {
  std::string file = module + attention.module + ".";
  return attention.sees == Sees::source ? cross_attention(attention, file, inputs, x)
                                        : self_attention(attention, file, inputs, x);
}

BufferId StackBuilder::append_part(const GatedMlp& mlp, const std::string& module,
                                   const StackInputs& /*inputs*/, BufferId x) {
  std::string file = module + mlp.module + ".";
  BufferId gate_up =
      linear(x, layer_name_ + "gate_up",
             projections_of(file, mlp.gate_and_up, {mlp.inner_width, mlp.inner_width}), mlp.bias);
  BufferId gated = activation(layer_name_ + "gated", x, mlp.inner_width);
  builder_.append(OpKind::gated_activation, layer_name_ + "gated", {gate_up}, {gated},
                  GateAttributes{mlp.activation});
  return linear(dropped(gated, options_.dropout.inner), layer_name_ + "down",
                {{file + mlp.down, spec_.width}}, mlp.bias);
}

BufferId StackBuilder::self_attention(const Attention& attention, const std::string& module,
                                      const StackInputs& inputs, BufferId x) {
  int64_t q_width = attention.q_width();
  int64_t kv_width = attention.kv_width();
  BufferId qkv =
      linear(x, layer_name_ + "qkv", projections_of(module, attention.qkv, {q_width, kv_width, kv_width}),
             attention.qkv_bias);
  if (attention.head_norms) {
    qkv = head_norm(attention, module, qkv);
  }
  if (attention.rope) {
    qkv = rotated(attention, inputs, qkv);
  }
  AttentionAttributes attributes = attributes_of(attention);
  attributes.k_column = q_width;
  attributes.v_column = q_width + kv_width;
  BufferId bias = attention.relative ? inputs.relative_bias : kNoBuffer;
  BufferId mixed = append_attention({qkv, qkv, inputs.offsets, inputs.offsets, bias},
                                    layer_name_ + "attention", attributes);
  return linear(mixed, layer_name_ + "attention_out", {{module + attention.out, spec_.width}},
                attention.out_bias);
}

BufferId StackBuilder::cross_attention(const Attention& attention, const std::string& module,
                                       const StackInputs& inputs, BufferId x) {
  SNUG_CHECK(attention.qkv.size() == 3, "queries have another input than keys and values");
  int64_t kv_width = attention.kv_width();
  BufferId q = linear(x, layer_name_ + "cross_q", {{module + attention.qkv[0], attention.q_width()}},
                      attention.qkv_bias);
  BufferId kv = linear(inputs.source, layer_name_ + "cross_kv",
                       {{module + attention.qkv[1], kv_width}, {module + attention.qkv[2], kv_width}},
                       attention.qkv_bias);
  AttentionAttributes attributes = attributes_of(attention);
  attributes.v_column = kv_width;
  BufferId mixed = append_attention({q, kv, inputs.offsets, inputs.source_offsets},
                                    layer_name_ + "cross_attention", attributes);
  return linear(mixed, layer_name_ + "cross_out", {{module + attention.out, spec_.width}},
                attention.out_bias);
}

BufferId StackBuilder::head_norm(const Attention& attention, const std::string& module, BufferId qkv) {
  BufferId q_weight = weight(module + "q_norm.weight", {fixed(attention.head_dim)});
  BufferId k_weight = weight(module + "k_norm.weight", {fixed(attention.head_dim)});
  BufferId y = activation(layer_name_ + "head_norm", qkv, builder_.buffer(qkv).dims[1].max);
  builder_.append(
      OpKind::head_norm, layer_name_ + "head_norm", {qkv, q_weight, k_weight}, {y},
      HeadNormAttributes{attention.heads, attention.kv_heads, static_cast<float>(spec_.norm_epsilon)});
  return y;
}

BufferId StackBuilder::rotated(const Attention& attention, const StackInputs& inputs, BufferId qkv) {
  BufferId y = activation(layer_name_ + "rotated", qkv, builder_.buffer(qkv).dims[1].max);
  builder_.append(OpKind::rope, layer_name_ + "rope", {qkv, inputs.positions, frequencies_of(attention)}, {y},
                  RopeAttributes{attention.heads + attention.kv_heads, attention.head_dim});
  return y;
}

}  // namespace snug
