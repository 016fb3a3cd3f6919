// What a recipe leaves open (auto), chosen: the fastest plan that has room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

struct ChosenRecipe {
  Recipe recipe;           // with what was chosen in place of what was left open
  bool is_chosen = false;  // something was left open
  bool is_recompute_chosen = false;
  int64_t peak_bytes = 0;  // of its plan
  bool fits = false;
  // With the largest micro-batches and everything kept, where the recipe leaves that open: what that would
  // take, how long a step takes by it, and how much longer one takes as it was chosen (0.1: a tenth).
  int64_t kept_peak_bytes = 0;
  double kept_seconds = 0;
  double slower = 0;
  double seconds = 0;  // of a step, expected
};

struct FittedRecipe : ChosenRecipe {
  Plan plan;
};

// The tokens that a micro-batch of this recipe may be planned for: from the bound down to the longest
// sequence, largest first.
std::vector<int64_t> micro_batch_sizes(const Recipe& recipe, const ModelSpec& spec, const LimitsOf& limits);

// Chooses memory.micro_batch_tokens, memory.recompute and memory.loss_chunk_tokens where they are left open:
// what takes the least time by the op table's costs over the device's rates, among all that fits. It depends
// on the recipe, the device and the limit alone, and no clock is asked. What is written stays. Where nothing
// fits, the plan is the smallest there is.
FittedRecipe choose_plan(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                         const LimitsOf& limits = {});
// The same without the plan, where what is chosen is all that is asked for.
ChosenRecipe choose_recipe(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                           const LimitsOf& limits = {});

// The peak of what takes least, whatever it costs, with all that may be left open (remedies.h).
int64_t least_peak_bytes(Recipe recipe, const ModelSpec& spec, const Device& device,
                         const LimitsOf& limits = {});

// What a step takes by this plan, to compare with another: by the rates of some card where the device tells
// none.
double expected_step_seconds(const Plan& plan, const Device& device, DType dtype);

}  // namespace snug
