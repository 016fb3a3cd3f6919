// The Qwen families: Qwen2 and Qwen2.5 have biases on queries, keys and values; Qwen3 normalises each head
// instead.
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

// Layers from max_window_layers on see a window only, if the config asks for it.
void list_layers(const Json& config, const std::string& path, const DecoderLayer& layer, ModelSpec& spec) {
  bool slides = json_bool(config, "use_sliding_window", false, path);
  int64_t window = slides ? size_key(config, "sliding_window", 0, path) : 0;
  spec.decoder = repeat(layer, layers_key(config, "num_hidden_layers", path),
                        read_windows(config, path, window, json_integer(config, "max_window_layers", path)));
}

void read_qwen2(const Json& config, const std::string& path, ModelSpec& spec) {
  DecoderLayer layer = read_decoder(config, path, spec);
  layer.attention.qkv_bias = true;
  list_layers(config, path, layer, spec);
}

void read_qwen3(const Json& config, const std::string& path, ModelSpec& spec) {
  DecoderLayer layer = read_decoder(config, path, spec);
  layer.attention.qkv_bias = json_bool(config, "attention_bias", false, path);
  layer.attention.out_bias = layer.attention.qkv_bias;
  layer.attention.head_norms = true;
  list_layers(config, path, layer, spec);
}

}  // namespace

const Family kQwen2Family = {"qwen2", {{"Qwen2ForCausalLM", "qwen2"}}, read_qwen2, build_decoder};
const Family kQwen3Family = {"qwen3", {{"Qwen3ForCausalLM", "qwen3"}}, read_qwen3, build_decoder};

}  // namespace snug
