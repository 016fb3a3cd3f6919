// Weights that a checkpoint itself holds as codes.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "io/json.h"
#include "program/buffer.h"

namespace snug {

struct ModelSpec;

struct StoredCodes {
  Format format;                     // by config.json's quantization_config
  std::vector<std::string> skipped;  // modules that it leaves out
  // What the files hold as codes, by tensor: where the weights are there, they decide.
  std::optional<std::map<std::string, Format>> tensors = {};
};

// By config.json; nothing of a checkpoint that is not quantised. Throws bad_input for a method that snug does
// not read, naming it.
std::optional<StoredCodes> read_stored_codes(const Json& config, const std::string& path);

// Looks into the weights, if they are there and config.json says that they are quantised.
void settle_codes(const std::filesystem::path& folder, ModelSpec& spec);

// How a tensor of the checkpoint is stored: the coding, or nothing if it is none. `module` is its name
// without ".weight".
std::optional<Format> stored_format(const StoredCodes& codes, const TensorPart& part,
                                    const std::string& module);

}  // namespace snug
