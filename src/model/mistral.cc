// The Mistral family: Llama's shape, with a sliding window in v0.1 and none later. A config that lists
// "layer_types" slides in some layers only; transformers calls that Ministral.
#include "model/config_keys.h"
#include "model/decoder.h"
#include "model/family.h"

namespace snug {
namespace {

void read_config(const Json& config, const std::string& path, ModelSpec& spec) {
  DecoderLayer layer = read_decoder(config, path, spec);
  spec.decoder = repeat(layer, layers_key(config, "num_hidden_layers", path),
                        read_windows(config, path, size_key(config, "sliding_window", 0, path), 0));
}

}  // namespace

const Family kMistralFamily = {"mistral",
                               {{"MistralForCausalLM", "mistral"}, {"MinistralForCausalLM", "ministral"}},
                               read_config,
                               build_decoder};

}  // namespace snug
