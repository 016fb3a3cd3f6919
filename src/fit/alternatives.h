// What would fit where a recipe's plan does not: one search for what `snug plan` and `snug train` advise and
// what `snug fit` does. The experiment (effective batch, length, rank, model) stays as the recipe has it;
// what changes its numerics is found too, and what makes another experiment of it, but each is kept apart.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda_plan/catalogue.h"
#include "backend/device.h"
#include "compile/batch_limits.h"
#include "fit/choice.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

struct Alternative {
  std::vector<std::string> settings;  // "--set" arguments that lead to it
  int64_t peak_bytes = 0;
  std::vector<std::string> changes;  // what is computed otherwise, in words
  Recipe recipe;                     // that the settings make, with what is left open chosen
  double seconds = 0;                // of a step, expected
  // Than a step as the recipe is, with everything kept where it leaves that open (0.1: a tenth); not known if
  // the device's rates are not.
  std::optional<double> slower;
};

struct Alternatives {
  // The same experiment: with a key left open that the recipe writes by hand, or all of them.
  std::vector<Alternative> same;
  // Other numerics, for the user to choose: narrower optimizer states or weights.
  std::vector<Alternative> opt_in;
  // Another experiment, as near as one that fits can be; looked for where nothing else fits.
  std::vector<Alternative> experiment;
  // The least that the experiment takes, and the smallest card of the catalogue that has it. Both are known
  // where the same experiment does not fit; the card, if it is planned for one.
  int64_t least_bytes = 0;
  const CatalogueCard* card = nullptr;
};

// The keys of opt-ins and of changes to the experiment that may be used; none: all of them.
using AllowedKeys = std::optional<std::set<std::string, std::less<>>>;

// The nearest plans that fit. `chosen`: what was chosen of this recipe and does not fit, if that is known;
// what it tells is not planned once more.
Alternatives find_alternatives(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                               const LimitsOf& limits = {}, const AllowedKeys& allowed = {},
                               const ChosenRecipe* chosen = nullptr);

// The keys in which one recipe differs from another, as "--set" arguments.
std::vector<std::string> settings_between(const Recipe& from, const Recipe& to);

}  // namespace snug
