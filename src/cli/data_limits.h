// What the data of a recipe bounds its batches to, for commands that plan.
#pragma once

#include <string>
#include <vector>

#include "compile/batch_limits.h"
#include "recipe/recipe.h"

namespace snug {

// Of all stages, or of a recipe without any; empty ones where the data is not asked. Each stage is evaluated
// with the sets of those before it, too.
std::vector<LimitsOf> limits_of_data(const std::vector<Recipe>& stages, bool with_data);

// "cuts 2.0% of the tokens, in 5.0% of the rows", of a setting such as data.max_length=512; "" if the setting
// cuts nothing from anything, or the data is not there.
std::string describe_cut(const Recipe& recipe, const std::string& setting);

}  // namespace snug
