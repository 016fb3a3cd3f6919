// Shared keys of config.json.
#include "model/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "io/printable.h"
#include "model/config_defaults.h"

namespace snug {
namespace {

// Big enough that any real model passes, small enough that no product of two sizes overflows.
constexpr int64_t kLargestSize = int64_t{1} << 24;
// Programs grow with the layers, and planning with them.
constexpr int64_t kMostLayers = int64_t{1} << 14;

bool is_given(const Json& config, std::string_view key) {
  auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

RopeScaling read_scaling(const Json& scaling, const std::string& path, int64_t max_positions) {
  std::string type = json_string(scaling, "rope_type", json_string(scaling, "type", "default", path), path);
  RopeScaling rope;
  if (type == "default") {
    return rope;
  }
  if (type == "linear") {
    rope.kind = RopeScaling::Kind::linear;
  } else if (type == "llama3") {
    rope.kind = RopeScaling::Kind::llama3;
    rope.low_frequency_factor = positive_key(scaling, "low_freq_factor", path);
    rope.high_frequency_factor = positive_key(scaling, "high_freq_factor", path);
    rope.original_positions = size_key(scaling, "original_max_position_embeddings", max_positions, path);
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
      throw bad_input(fmt::format("{}: \"high_freq_factor\" {} must be above \"low_freq_factor\" {}", path,
                                  rope.high_frequency_factor, rope.low_frequency_factor));
    }
  } else if (type == "dynamic") {
    rope.kind = RopeScaling::Kind::dynamic;
    rope.original_positions = size_key(scaling, "original_max_position_embeddings", max_positions, path);
  } else {
    throw bad_input(fmt::format(
        "{}: rope_scaling \"{}\" is not supported; supported: default, linear, llama3, dynamic", path, type));
  }
  rope.factor = positive_key(scaling, "factor", path);
  return rope;
}

int64_t size_up_to(int64_t largest, const Json& config, std::string_view key, const std::string& path) {
  int64_t value = json_integer(config, key, path);
  if (value <= 0 || value > largest) {
    throw bad_input(fmt::format("{}: \"{}\" is {}: expected between 1 and {}", path, key, value, largest));
  }
  return value;
}

// Whether layer `layer` of "layer_types" slides.
bool is_sliding(const Json& types, size_t layer, const std::string& path) {
  const Json& type = types[layer];
  if (type != "sliding_attention" && type != "full_attention") {
    throw bad_input(
        fmt::format("{}: \"layer_types\" has {} for layer {}; supported: full_attention, sliding_attention",
                    path, printable(type.dump(), 60), layer));
  }
  return type == "sliding_attention";
}

// rope_theta and rope_scaling, at the top level or (in newer files) in "rope_parameters".
Rope read_rope(const Json& config, const std::string& path, int64_t max_positions) {
  Rope rope{.theta = positive_key(config, "rope_theta", path)};
  // Where both are given, the older name counts alone.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!is_given(config, key) || config[key].empty()) {
      continue;
    }
    const Json& scaling = config[key];
    if (!scaling.is_object() ||
        std::any_of(scaling.begin(), scaling.end(), [](const Json& value) { return value.is_object(); })) {
      throw bad_input(fmt::format("{}: \"{}\" must be one object with numbers, for all layers", path, key));
    }
    if (is_given(scaling, "rope_theta")) {
      rope.theta = positive_key(scaling, "rope_theta", path);
    }
    rope.scaling = read_scaling(scaling, path, max_positions);
    break;
  }
  return rope;
}

// Refuses a hidden_act other than silu.
void require_silu(const Json& config, const std::string& path) {
  std::string activation = json_string(config, "hidden_act", "silu", path);
  if (activation != "silu" && activation != "swish") {
    throw bad_input(fmt::format("{}: \"hidden_act\" is \"{}\"; this family uses silu", path, activation));
  }
}

}  // namespace

Json with_defaults(const Json& config, std::string_view model_type, const std::string& path) {
  std::span<const ConfigDefaults> all = config_defaults();
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const ConfigDefaults& entry) { return entry.model_type == model_type; });
  SNUG_CHECK(found != all.end(), "no defaults for model type " + std::string(model_type));
  Json full = parse_json(found->json, path);
  full.update(config);
  full["model_type"] = model_type;
  return full;
}

int64_t size_key(const Json& config, std::string_view key, const std::string& path) {
  return size_up_to(kLargestSize, config, key, path);
}

int64_t layers_key(const Json& config, std::string_view key, const std::string& path) {
  return size_up_to(kMostLayers, config, key, path);
}

double positive_key(const Json& config, std::string_view key, const std::string& path) {
  double value = json_number(config, key, 0, path);
  if (!(value > 0) || !std::isfinite(value)) {
    throw bad_input(fmt::format("{}: \"{}\" is {}: expected a number above 0", path, key, value));
  }
  return value;
}

int64_t size_key(const Json& config, std::string_view key, int64_t fallback, const std::string& path) {
  return is_given(config, key) ? size_key(config, key, path) : fallback;
}

double dropout_key(const Json& config, std::string_view key, double fallback, const std::string& path) {
  double rate = json_number(config, key, fallback, path);
  if (!(rate >= 0 && rate < 1)) {
    throw bad_input(fmt::format("{}: \"{}\" is {}: expected a share from 0 to below 1", path, key, rate));
  }
  return rate;
}

std::vector<int64_t> read_windows(const Json& config, const std::string& path, int64_t window,
                                  int64_t first_layer) {
  auto layers = static_cast<size_t>(layers_key(config, "num_hidden_layers", path));
  bool listed = is_given(config, "layer_types");
  if (listed && (!config["layer_types"].is_array() || config["layer_types"].size() != layers)) {
    throw bad_input(fmt::format("{}: \"layer_types\" must list {} layers, as there are", path, layers));
  }
  std::vector<int64_t> windows;
  for (size_t layer = 0; layer < layers; ++layer) {
    bool slides = listed ? is_sliding(config["layer_types"], layer, path)
                         : window > 0 && static_cast<int64_t>(layer) >= first_layer;
    if (slides && window == 0) {
      throw bad_input(fmt::format(
          "{}: \"layer_types\" has sliding_attention, but there is no \"sliding_window\" in use", path));
    }
    windows.push_back(slides ? window : 0);
  }
  return windows;
}

DecoderLayer read_decoder(const Json& config, const std::string& path, ModelSpec& spec) {
  spec.vocabulary = size_key(config, "vocab_size", path);
  spec.width = size_key(config, "hidden_size", path);
  int64_t heads = size_key(config, "num_attention_heads", path);
  int64_t kv_heads = size_key(config, "num_key_value_heads", heads, path);
  int64_t inner_width = size_key(config, "intermediate_size", path);
  spec.max_positions = size_key(config, "max_position_embeddings", path);
  if (!is_given(config, "head_dim") && spec.width % heads != 0) {
    throw bad_input(
        fmt::format("{}: \"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}, and no "
                    "\"head_dim\" is given",
                    path, spec.width, heads));
  }
  int64_t head_dim = size_key(config, "head_dim", std::max<int64_t>(spec.width / heads, 1), path);
  if (heads % kv_heads != 0) {
    throw bad_input(
        fmt::format("{}: \"num_attention_heads\" {} is not a multiple of \"num_key_value_heads\" {}", path,
                    heads, kv_heads));
  }
  if (head_dim % 2 != 0) {
    throw bad_input(
        fmt::format("{}: the head dimension {} is odd; rotary positions need pairs", path, head_dim));
  }
  spec.norm_epsilon = positive_key(config, "rms_norm_eps", path);
  spec.initializer_range = json_number(config, "initializer_range", 0.02, path);
  spec.tied_embeddings = json_bool(config, "tie_word_embeddings", false, path);
  spec.dropout.attention = dropout_key(config, "attention_dropout", 0.0, path);
  DecoderLayer layer = usual_layer(heads, kv_heads, head_dim, inner_width);
  layer.attention.rope = read_rope(config, path, spec.max_positions);
  require_silu(config, path);
  return layer;
}

}  // namespace snug
