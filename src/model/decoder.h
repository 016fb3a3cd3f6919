// Decoder-only models of the usual kind: their layers, and their forward program.
#pragma once

#include <cstdint>
#include <vector>

#include "model/layer.h"
#include "model/model_spec.h"

namespace snug {

// The layer that Llama made usual, under its names: causal attention with rotary positions, a gated MLP, a
// norm before each. A family changes what is different about its own.
struct DecoderLayer {
  Attention attention;
  GatedMlp mlp;
};
DecoderLayer usual_layer(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t inner_width);

// `count` of it. `windows`, if there are any, has one for each.
std::vector<Layer> repeat(const DecoderLayer& layer, int64_t count, const std::vector<int64_t>& windows = {});

Program build_decoder(const ModelSpec& spec, const ForwardOptions& options);

}  // namespace snug
