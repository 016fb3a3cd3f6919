// What Hugging Face's config classes take for a key that config.json leaves out (or, a key of value null,
// that they derive from others).
#pragma once

#include <span>
#include <string_view>

namespace snug {

struct ConfigDefaults {
  std::string_view model_type;
  std::string_view json;
};

// One entry for each model type that a family reads.
std::span<const ConfigDefaults> config_defaults();

}  // namespace snug
