// The metric that says which evaluation is the best.
#pragma once

#include <string>

#include "recipe/recipe.h"

namespace snug {

// The set whose loss it is: "" for that of all. "eval_" may be left out, as in Hugging Face.
std::string set_of_best_metric(const TrainingSection& training);

// Why metric_for_best_model is none of this recipe's, or "".
std::string find_metric_problem(const Recipe& recipe);

}  // namespace snug
