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
  const std::vector<Recompute>& policies;  // as worthwhile_policies gives them
  ProfileWith profile_with;
  int64_t room_bytes = 0;  // for what does not persist
};

// False if no mixture of the policies can fit.
bool may_have_room(const RecomputeProblem& problem);

// Policies by layer. The first layers recompute most, as what they keep lives longest.
struct RecomputeMixture {
  std::vector<Recompute> policies;
  int64_t kept_bytes = 0;
  double seconds = 0;  // of a step
};

// All that are not both slower and larger than another, fastest first, as they are reckoned from a step that
// takes `kept_seconds` with everything kept.
std::vector<RecomputeMixture> mixtures_that_might_fit(const RecomputeProblem& problem, double kept_seconds);

// The fastest that fits as it is planned. Nothing if none does, or none that does takes less than
// `faster_than` seconds.
std::optional<PlannedCandidate> first_that_fits(const std::vector<RecomputeMixture>& mixtures, int64_t layers,
                                                const PlanWith& plan_with, std::optional<double> faster_than);

}  // namespace snug
