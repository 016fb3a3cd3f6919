// Whether a model's head is its embedding.
#pragma once

#include <filesystem>

#include "model/model_spec.h"

namespace snug {

// config.json says what was meant; where the weights are there, they decide, as they do for transformers: a
// head of other values is a head of its own although the config ties it, and a T5 without a head (or with one
// of the same values) is tied although its config says nothing of it.
void settle_tying(const std::filesystem::path& folder, ModelSpec& spec);

}  // namespace snug
