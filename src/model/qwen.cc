// The Qwen families: Qwen2 and Qwen2.5 have biases on queries, keys and values; Qwen3 normalises each head
// instead.
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

// Layers from max_window_layers on see a window only, if the config asks for it.
void read_qwen_windows(const Json& config, const std::string& path, ModelSpec& spec) {
  bool slides = json_bool(config, "use_sliding_window", false, path);
  read_windows(config, path, slides ? size_key(config, "sliding_window", 0, path) : 0,
               json_integer(config, "max_window_layers", path), spec);
}

void read_qwen2(const Json& config, const std::string& path, ModelSpec& spec) {
  read_decoder_shape(config, path, spec);
  read_rope(config, path, spec);
  require_silu(config, path);
  read_qwen_windows(config, path, spec);
  spec.qkv_bias = true;
}

void read_qwen3(const Json& config, const std::string& path, ModelSpec& spec) {
  read_decoder_shape(config, path, spec);
  read_rope(config, path, spec);
  require_silu(config, path);
  read_qwen_windows(config, path, spec);
  spec.qkv_bias = json_bool(config, "attention_bias", false, path);
  spec.attention_out_bias = spec.qkv_bias;
  spec.head_norms = true;
}

}  // namespace

const Family kQwen2Family = {"qwen2", {{"Qwen2ForCausalLM", "qwen2"}}, read_qwen2, build_decoder};
const Family kQwen3Family = {"qwen3", {{"Qwen3ForCausalLM", "qwen3"}}, read_qwen3, build_decoder};

}  // namespace snug
