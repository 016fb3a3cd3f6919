// README.md of an adapter that was trained on a quantised base: where PEFT, too, says how the base was
// loaded.
#pragma once

#include <filesystem>
#include <string>

#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

// "" where the base is not quantised: adapter_config.json says all there is then.
std::string model_card(const Recipe& recipe, const ModelSpec& spec);

inline constexpr const char* kModelCardFile = "README.md";

}  // namespace snug
