// The Llama family (1, 2, 3, 3.x, and models of the same architecture such as DeepSeek-LLM).
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

void read_config(const Json& config, const std::string& path, ModelSpec& spec) {
  read_decoder_shape(config, path, spec);
  read_rope(config, path, spec);
  require_silu(config, path);
  spec.qkv_bias = json_bool(config, "attention_bias", false, path);
  spec.attention_out_bias = spec.qkv_bias;
  spec.mlp_bias = json_bool(config, "mlp_bias", false, path);
}

}  // namespace

const Family kLlamaFamily = {"llama", {{"LlamaForCausalLM", "llama"}}, read_config, build_decoder};

}  // namespace snug
