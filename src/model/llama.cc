// The Llama family (1, 2, 3, 3.x, and models of the same architecture such as DeepSeek-LLM).
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

void read_config(const Json& config, const std::string& path, ModelSpec& spec) {
  DecoderLayer layer = read_decoder(config, path, spec);
  layer.attention.qkv_bias = json_bool(config, "attention_bias", false, path);
  layer.attention.out_bias = layer.attention.qkv_bias;
  layer.mlp.bias = json_bool(config, "mlp_bias", false, path);
  spec.decoder = repeat(layer, layers_key(config, "num_hidden_layers", path));
}

}  // namespace

const Family kLlamaFamily = {"llama", {{"LlamaForCausalLM", "llama"}}, read_config, build_decoder};

}  // namespace snug
