// memory.recompute: one word for all layers, a word per layer, or entries that say what ranges of layers
// keep.
#pragma once

#include <string>

#include "recipe/keys.h"

namespace snug {

RecipeKey recompute_key();

// Of the values that a model has: "qkv, sum and gate_up", "all but norms and gated"; "nothing", "everything".
std::string names_of(LayerValues values, LayerValues of_model);
// "3", or "0-12".
std::string layers_text(size_t first, size_t last);

}  // namespace snug
