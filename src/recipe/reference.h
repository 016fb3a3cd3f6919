// The reference of the recipe's keys for people: docs/recipe.md.
#pragma once

#include <string>

namespace snug {

// The whole text of docs/recipe.md, from the key table.
std::string recipe_reference_markdown();

}  // namespace snug
