// The Qwen families: Qwen2 and Qwen2.5 have biases on queries, keys and values; Qwen3 normalises each head
// instead.
#include <fmt/format.h>

#include "base/error.h"
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

// Layers from max_window_layers on see a window only, if the config asks for it; newer files list every
// layer.
void read_windows(const Json& config, const std::string& path, ModelSpec& spec) {
  if (!json_bool(config, "use_sliding_window", false, path)) {
    return;
  }
  int64_t window = size_key(config, "sliding_window", 4096, path);
  int64_t first = json_integer(config, "max_window_layers", 28, path);
  auto types = config.find("layer_types");
  bool listed = types != config.end() && types->is_array();
  if (listed && types->size() != static_cast<size_t>(spec.layers)) {
    throw bad_input(fmt::format("{}: \"layer_types\" lists {} layers, but there are {}", path, types->size(),
                                spec.layers));
  }
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    bool slides = listed ? (*types)[static_cast<size_t>(layer)] == "sliding_attention" : layer >= first;
    spec.windows.push_back(slides ? window : 0);
  }
}

void read_qwen2(const Json& config, const std::string& path, ModelSpec& spec) {
  read_decoder_shape(config, path, spec);
  read_rope(config, path, spec);
  require_silu(config, path);
  read_windows(config, path, spec);
  spec.qkv_bias = true;
}

void read_qwen3(const Json& config, const std::string& path, ModelSpec& spec) {
  read_decoder_shape(config, path, spec);
  spec.head_dim = size_key(config, "head_dim", 128, path);
  read_rope(config, path, spec);
  require_silu(config, path);
  read_windows(config, path, spec);
  spec.qkv_bias = json_bool(config, "attention_bias", false, path);
  spec.attention_out_bias = spec.qkv_bias;
  spec.head_norms = true;
}

}  // namespace

const Family kQwen2Family = {"qwen2", {"Qwen2ForCausalLM"}, read_qwen2, build_decoder};
const Family kQwen3Family = {"qwen3", {"Qwen3ForCausalLM"}, read_qwen3, build_decoder};

}  // namespace snug
