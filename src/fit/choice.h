// What a recipe leaves open (auto), chosen: the fastest plan that has room.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

struct FittedRecipe {
  Recipe recipe;  // nothing that a plan depends on is left open in it
  Plan plan;
};

// The tokens that a micro-batch of this recipe may be planned for: from the bound down to the longest
// sequence, largest first.
std::vector<int64_t> micro_batch_sizes(const Recipe& recipe, const ModelSpec& spec, const LimitsOf& limits);

// The largest micro-batches that fit. Where nothing does, the plan of the smallest says so.
FittedRecipe choose_plan(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                         const LimitsOf& limits = {});

}  // namespace snug
