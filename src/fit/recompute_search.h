// How little has to be computed twice: which layers, and what of each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fit/layer_profile.h"
#include "plan/micro_batch_plans.h"
#include "recipe/recipe.h"

namespace snug {

struct PlannedCandidate {
  Recipe recipe;
  MicroBatchPlan plan;
  std::optional<int64_t> limit_bytes = std::nullopt;

  bool fits() const { return !limit_bytes || plan.peak_bytes <= *limit_bytes; }
};

// "nothing recomputed", "full recomputation in all layers", "recomputation in layers 0-14 (everything), 15-20
// (norms and gated)": other layers keep everything. `of_model`: the values that its layers have.
std::string describe(const std::vector<Recompute>& policies, LayerValues of_model);
// By the recipe's plan.
std::string describe_recompute(const Recipe& recipe, const Plan& plan);

using ProfileWith = std::function<PolicyProfile(Recompute)>;  // one policy in all layers

// Of all that a layer can keep, what is not both slower and larger than something else. What keeps least
// comes first.
std::vector<Recompute> worthwhile_policies(const ProfileWith& profile_with);

using PlanWith = std::function<PlannedCandidate(const std::vector<Recompute>&)>;

// What takes least, whatever it costs.
PlannedCandidate smallest_recompute(int64_t layers, const PlanWith& plan_with);

struct RecomputeProblem {
  int64_t layers = 0;
  const std::vector<Recompute>& policies;  // as worthwhile_policies gives them
  PlanWith plan_with;
  ProfileWith profile_with;
  int64_t room_bytes = 0;  // for what does not persist
};

// The fastest mixture that fits, of a run that does not fit with everything kept. The first layers recompute
// most, as what they keep lives longest. Nothing if none fits.
std::optional<PlannedCandidate> least_recompute(const RecomputeProblem& problem);

}  // namespace snug
