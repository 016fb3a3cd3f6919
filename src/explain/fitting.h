// A run that fits on the card of a log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "explain/counts.h"
#include "explain/story.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

// The person's recipe on a card of so many bytes; nothing if no settings make it fit.
std::optional<FittingRun> fit_recipe(const Recipe& recipe, const ModelSpec& spec, int64_t limit_bytes);

// A new recipe for the model, with the adapters that were counted, if there are any.
std::optional<FittingRun> fit_model(const std::string& model, const ModelSpec& spec,
                                    const CountedRun* counted, int64_t limit_bytes);

}  // namespace snug
