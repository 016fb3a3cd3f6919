// How little has to be computed twice: which layers, and how much of each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

struct PlannedCandidate {
  Recipe recipe;
  Plan plan;
  double seconds = 0;  // of a step, expected
};

// "nothing recomputed", "full recomputation in 3 of 28 layers, selective in 25".
std::string describe(const std::vector<Recompute>& policies);

using PlanWith = std::function<PlannedCandidate(const std::vector<Recompute>&)>;

// The fastest that fits, of all numbers of layers that recompute everything and of layers that recompute
// what is cheap; the first layers recompute most, as what they keep lives longest. `kept` keeps everything,
// and does not fit. Where nothing fits: the smallest.
PlannedCandidate least_recompute(PlannedCandidate kept, int64_t layers, const PlanWith& plan_with);

}  // namespace snug
