// The Mistral family: Llama's shape, with a sliding window in v0.1 and none later.
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

void read_config(const Json& config, const std::string& path, ModelSpec& spec) {
  read_decoder_shape(config, path, spec);
  read_rope(config, path, spec);
  require_silu(config, path);
  if (int64_t window = size_key(config, "sliding_window", 0, path); window > 0) {
    spec.windows.assign(static_cast<size_t>(spec.layers), window);
  }
}

}  // namespace

const Family kMistralFamily = {"mistral", {"MistralForCausalLM"}, read_config, build_decoder};

}  // namespace snug
