// From a Recipe back to text: YAML that reads as the same recipe, and JSON for reports.
#pragma once

#include <string>
#include <vector>

#include "io/json.h"
#include "recipe/recipe.h"

namespace snug {

// The same recipe, and it means the same whoever reads it from wherever.
Recipe with_absolute_paths(Recipe recipe);

// Every key, defaults included. Paths are made absolute, because the text is written beside a run's outputs
// and must mean the same there, whoever reads it from wherever.
std::string recipe_to_yaml(const Recipe& recipe);

// The recipes of all stages as one text (see parse_recipes); of one without stages the same as above.
std::string recipes_to_yaml(const std::vector<Recipe>& recipes);

// The same sections and keys, with the paths as they are. "lora" is null for full fine-tuning.
Json recipe_to_json(const Recipe& recipe);

// One value as recipes write it: `2e-4`, `true`, `null`, `[q_proj, v_proj]`, text quoted where YAML needs it.
std::string yaml_value(const Json& value);

}  // namespace snug
