// Halving the number of layers that are computed twice.
#include "fit/least_recompute.h"

#include <algorithm>

#include "plan/training.h"

namespace snug {

FittedRecipe with_least_recompute(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                  const LimitsOf& limits) {
  auto with_full_layers = [&](int64_t full_layers, Recompute rest) {
    Recipe candidate = recipe;
    candidate.memory.recompute.assign(static_cast<size_t>(spec.all_layers()), rest);
    std::fill_n(candidate.memory.recompute.begin(), full_layers, Recompute::full);
    Plan plan = plan_training(candidate, spec, device, limits);
    return FittedRecipe{std::move(candidate), std::move(plan)};
  };
  FittedRecipe plain = with_full_layers(0, Recompute::none);
  if (plain.plan.fits()) {
    return plain;
  }
  int64_t low = 0;
  int64_t high = spec.all_layers();
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (with_full_layers(middle, Recompute::selective).plan.fits()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return with_full_layers(low, Recompute::selective);
}

}  // namespace snug
