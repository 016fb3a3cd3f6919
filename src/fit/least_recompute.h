// How little has to be computed twice.
#pragma once

#include "compile/batch_limits.h"
#include "fit/choice.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

// The recipe with memory.recompute set to the least that fits: nothing; or all of as few layers as possible,
// the first ones, and of the others what is cheap. Where nothing fits, the plan says so.
FittedRecipe with_least_recompute(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                  const LimitsOf& limits = {});

}  // namespace snug
