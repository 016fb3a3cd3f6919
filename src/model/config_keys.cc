// Shared keys of config.json.
#include "model/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace snug {
namespace {

// Big enough that any real model passes, small enough that no product of two sizes overflows.
constexpr int64_t kLargestSize = int64_t{1} << 24;

bool is_given(const Json& config, std::string_view key) {
  auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

double positive_key(const Json& config, std::string_view key, double fallback, const std::string& path) {
  double value = json_number(config, key, fallback, path);
  if (!(value > 0) || !std::isfinite(value)) {
    throw bad_input(fmt::format("{}: \"{}\" is {}: expected a number above 0", path, key, value));
  }
  return value;
}

void read_scaling(const Json& scaling, const std::string& path, ModelSpec& spec) {
  std::string type = json_string(scaling, "rope_type", json_string(scaling, "type", "default", path), path);
  RopeScaling& rope = spec.rope_scaling;
  if (type == "default") {
    return;
  }
  if (type == "linear") {
    rope.kind = RopeScaling::Kind::linear;
  } else if (type == "llama3") {
    rope.kind = RopeScaling::Kind::llama3;
    rope.low_frequency_factor = positive_key(scaling, "low_freq_factor", 1.0, path);
    rope.high_frequency_factor = positive_key(scaling, "high_freq_factor", 4.0, path);
    rope.original_positions = size_key(scaling, "original_max_position_embeddings", 8192, path);
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
      throw bad_input(fmt::format("{}: \"high_freq_factor\" {} must be above \"low_freq_factor\" {}", path,
                                  rope.high_frequency_factor, rope.low_frequency_factor));
    }
  } else if (type == "dynamic") {
    rope.kind = RopeScaling::Kind::dynamic;
    rope.original_positions = size_key(scaling, "original_max_position_embeddings", spec.max_positions, path);
  } else {
    throw bad_input(fmt::format(
        "{}: rope_scaling \"{}\" is not supported; supported: default, linear, llama3, dynamic", path, type));
  }
  rope.factor = positive_key(scaling, "factor", 1.0, path);
}

}  // namespace

int64_t size_key(const Json& config, std::string_view key, const std::string& path) {
  int64_t value = json_integer(config, key, path);
  if (value <= 0 || value > kLargestSize) {
    throw bad_input(
        fmt::format("{}: \"{}\" is {}: expected between 1 and {}", path, key, value, kLargestSize));
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

void read_rope(const Json& config, const std::string& path, ModelSpec& spec) {
  spec.rope_theta = positive_key(config, "rope_theta", 10000.0, path);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!is_given(config, key)) {
      continue;
    }
    const Json& scaling = config[key];
    if (!scaling.is_object()) {
      throw bad_input(fmt::format("{}: \"{}\" must be an object", path, key));
    }
    spec.rope_theta = positive_key(scaling, "rope_theta", spec.rope_theta, path);
    read_scaling(scaling, path, spec);
  }
}

void read_decoder_shape(const Json& config, const std::string& path, ModelSpec& spec) {
  spec.vocabulary = size_key(config, "vocab_size", path);
  spec.width = size_key(config, "hidden_size", path);
  spec.layers = size_key(config, "num_hidden_layers", path);
  spec.heads = size_key(config, "num_attention_heads", path);
  spec.kv_heads = size_key(config, "num_key_value_heads", spec.heads, path);
  spec.inner_width = size_key(config, "intermediate_size", path);
  spec.max_positions = size_key(config, "max_position_embeddings", 2048, path);
  if (!is_given(config, "head_dim") && spec.width % spec.heads != 0) {
    throw bad_input(
        fmt::format("{}: \"hidden_size\" {} is not a multiple of \"num_attention_heads\" {}, and no "
                    "\"head_dim\" is given",
                    path, spec.width, spec.heads));
  }
  spec.head_dim = size_key(config, "head_dim", std::max<int64_t>(spec.width / spec.heads, 1), path);
  if (spec.heads % spec.kv_heads != 0) {
    throw bad_input(
        fmt::format("{}: \"num_attention_heads\" {} is not a multiple of \"num_key_value_heads\" {}", path,
                    spec.heads, spec.kv_heads));
  }
  if (spec.head_dim % 2 != 0) {
    throw bad_input(
        fmt::format("{}: the head dimension {} is odd; rotary positions need pairs", path, spec.head_dim));
  }
  spec.norm_epsilon = json_number(config, "rms_norm_eps", 1e-6, path);
  spec.initializer_range = json_number(config, "initializer_range", 0.02, path);
  spec.tied_embeddings = json_bool(config, "tie_word_embeddings", false, path);
  spec.dropout.attention = dropout_key(config, "attention_dropout", 0.0, path);
}

void require_silu(const Json& config, const std::string& path) {
  std::string activation = json_string(config, "hidden_act", "silu", path);
  if (activation != "silu" && activation != "swish") {
    throw bad_input(fmt::format("{}: \"hidden_act\" is \"{}\"; this family uses silu", path, activation));
  }
}

}  // namespace snug
