// What would fit where a recipe's plan does not. The experiment (effective batch, length, rank, model) stays
// as the recipe has it; what changes its numerics is found too, but kept apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

struct Alternative {
  std::vector<std::string> settings;  // "--set" arguments that lead to it
  int64_t peak_bytes = 0;
  std::vector<std::string> changes;  // what is computed otherwise, in words
};

struct Alternatives {
  // The same experiment: with a key left open that the recipe writes by hand, or all of them.
  std::vector<Alternative> same;
  // Other numerics, for the user to choose: narrower optimizer states or weights.
  std::vector<Alternative> opt_in;
};

// The nearest plans that fit, fastest first.
Alternatives find_alternatives(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                               const LimitsOf& limits = {});

}  // namespace snug
