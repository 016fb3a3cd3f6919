// Plans of a recipe, and what would fit when it does not. The experiment (effective batch, length, rank,
// model) stays as the recipe has it; what changes its numerics is found too, but kept apart.
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

// For the batches that `limits` tell, else for any that the recipe allows. Evaluation is a phase where the
// run evaluates; its batches, if the recipe leaves them open, are the largest that do not raise the peak.
Plan plan_training(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                   const LimitsOf& limits = {});

// The most sequences that an evaluation's batch may have; nothing if the run does not evaluate.
std::optional<int64_t> evaluation_sequences(const Plan& plan);

struct Alternative {
  std::vector<std::string> settings;  // "--set" arguments that lead to it
  int64_t peak_bytes = 0;
  std::vector<std::string> changes;  // what is computed otherwise, in words
};

struct Alternatives {
  // The same experiment: recomputation, and smaller micro-batches with more accumulation.
  std::vector<Alternative> same;
  // Other numerics, for the user to choose: narrower optimizer states or weights.
  std::vector<Alternative> opt_in;
};

// The nearest plans that fit, fastest first.
Alternatives find_alternatives(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                               const LimitsOf& limits = {});

}  // namespace snug
