// Plans of a recipe, and what would fit when it does not. Only free choices are tried: the experiment
// (effective batch, length, rank, model, numerics) stays as the recipe has it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

// The limit that applies: the recipe's, else what the device has, if that is known.
std::optional<int64_t> memory_limit(const Recipe& recipe, const Device& device);

// For the batches that `limits` tell, else for any that the recipe allows.
Plan plan_training(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits = {});

struct Alternative {
  std::vector<std::string> settings;  // "--set" arguments that lead to it
  int64_t peak_bytes = 0;
};

// The nearest plans that fit, fastest first: recomputation, then smaller micro-batches with more
// accumulation. Empty if none does.
std::vector<Alternative> find_alternatives(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                           const LimitsOf& limits = {});

}  // namespace snug
