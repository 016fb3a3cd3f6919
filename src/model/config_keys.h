// Reading the keys of config.json that families share. Every error names the file, the key and what is
// allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "model/decoder.h"
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

// Vocabulary, width, positions, norm, initialisation and attention_dropout of a decoder-only model; its
// heads, its rotation and its inner width in a layer that every family goes on from.
DecoderLayer read_decoder(const Json& config, const std::string& path, ModelSpec& spec);

// Of each layer. Those that "layer_types" lists see `window` tokens back only, or all from `first_layer` on.
// 0: there are none.
std::vector<int64_t> read_windows(const Json& config, const std::string& path, int64_t window,
                                  int64_t first_layer);

}  // namespace snug
