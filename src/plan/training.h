// The plan of a recipe's run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

// The limit that applies: the recipe's, else what the device has, if that is known.
std::optional<int64_t> memory_limit(const Recipe& recipe, const Device& device);

// For the batches that `limits` tell, else for any that the recipe allows. Evaluation is a phase where the
// run evaluates; its batches, if the recipe leaves them open, are the largest that do not raise the peak.
// Where evaluations generate answers, the phases of that come behind it.
Plan plan_training(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits = {});

// The same where nothing but the peak and the steps are asked for: an evaluation's batches that are left open
// have one sequence, which never takes more, and nothing is said of checkpoints.
Plan plan_for_peak(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits = {});

// What a batch of that phase has room for.
BatchLimits planned_batch(const Plan& plan, std::string_view phase);
BatchLimits planned_batch(const Program& program);

}  // namespace snug
