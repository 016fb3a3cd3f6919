// The Phi-3 family: Llama's shape, with queries, keys and values in one matrix of the files, and gate and up
// in another.
#include <fmt/format.h>

#include "base/error.h"
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

void read_config(const Json& config, const std::string& path, ModelSpec& spec) {
  DecoderLayer layer = read_decoder(config, path, spec);
  auto rope = config.find("rope_parameters");
  const Json& rotation = rope != config.end() && rope->is_object() ? *rope : config;
  if (json_number(rotation, "partial_rotary_factor", 1.0, path) != 1.0) {
    throw bad_input(fmt::format(
        "{}: \"partial_rotary_factor\" is not 1: models that rotate a part of each head (Phi-4-mini) are not "
        "supported; Phi-3 and Phi-4 with plain rotary positions are",
        path));
  }
  layer.attention.window = size_key(config, "sliding_window", 0, path);
  layer.attention.qkv = {"qkv_proj"};
  layer.mlp.gate_and_up = {"gate_up_proj"};
  spec.dropout.residual = dropout_key(config, "resid_pdrop", 0.0, path);
  spec.decoder = repeat(layer, layers_key(config, "num_hidden_layers", path));
}

}  // namespace

const Family kPhi3Family = {"phi3", {{"Phi3ForCausalLM", "phi3"}}, read_config, build_decoder};

}  // namespace snug
