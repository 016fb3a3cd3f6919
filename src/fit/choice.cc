// Trying micro-batches, largest first.
#include "fit/choice.h"

#include <algorithm>
#include <utility>

#include "plan/training.h"

namespace snug {

std::vector<int64_t> micro_batch_sizes(const Recipe& recipe, const ModelSpec& spec, const LimitsOf& limits) {
  std::vector<int64_t> sizes;
  std::vector<BatchLimits> known;
  int64_t length = recipe.data.max_length;
  for (int64_t tokens = micro_batch_tokens(recipe); tokens > 0;) {
    Recipe candidate = recipe;
    candidate.memory.micro_batch_tokens = tokens;
    BatchLimits planned = limits ? limits(candidate).train : recipe_limits(candidate, spec).train;
    if (std::find(known.begin(), known.end(), planned) == known.end()) {
      known.push_back(planned);
      sizes.push_back(tokens);
    }
    // Whole sequences of max_length; below that, down to the longest that the data has.
    tokens = tokens > length ? std::max<int64_t>(tokens / length / 2, 1) * length : tokens / 2;
  }
  return sizes;
}

FittedRecipe choose_plan(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                         const LimitsOf& limits) {
  FittedRecipe fitted{recipe, {}};
  if (recipe.memory.micro_batch_tokens) {
    fitted.plan = plan_training(recipe, spec, device, limits);
    return fitted;
  }
  for (int64_t tokens : micro_batch_sizes(recipe, spec, limits)) {
    fitted.recipe.memory.micro_batch_tokens = tokens;
    fitted.plan = plan_training(fitted.recipe, spec, device, limits);
    if (fitted.plan.fits()) {
      break;
    }
  }
  return fitted;
}

}  // namespace snug
