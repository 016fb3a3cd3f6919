// Reading the keys of config.json that families share. Every error names the file, the key and what is
// allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/json.h"
#include "model/model_spec.h"

namespace snug {

// `config` with Hugging Face's values for the keys that it leaves out (model/config_defaults.h). A key that
// is given as null stays null.
Json with_defaults(const Json& config, std::string_view model_type, const std::string& path);

// A size between 1 and what any real model stays below.
int64_t size_key(const Json& config, std::string_view key, const std::string& path);
int64_t size_key(const Json& config, std::string_view key, int64_t fallback, const std::string& path);

// A number of layers.
int64_t layers_key(const Json& config, std::string_view key, const std::string& path);

double positive_key(const Json& config, std::string_view key, const std::string& path);

// A share of what is dropped while training, from 0 to below 1.
double dropout_key(const Json& config, std::string_view key, double fallback, const std::string& path);

// Vocabulary, widths, heads, layers, positions, norm, initialisation and attention_dropout of a decoder-only
// model.
void read_decoder_shape(const Json& config, const std::string& path, ModelSpec& spec);

// rope_theta and rope_scaling, at the top level or (in newer files) in "rope_parameters".
void read_rope(const Json& config, const std::string& path, ModelSpec& spec);

// The layers that see `window` tokens back only: those that "layer_types" lists, else all from `first_layer`
// on. 0: there are none.
void read_windows(const Json& config, const std::string& path, int64_t window, int64_t first_layer,
                  ModelSpec& spec);

// Refuses a hidden_act other than silu.
void require_silu(const Json& config, const std::string& path);

}  // namespace snug
