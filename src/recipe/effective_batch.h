// How many sequences make up a step: said directly, or as a product.
#pragma once

#include <cstdint>
#include <string>

#include "recipe/recipe.h"

namespace snug {

// Sequences a step, or packs.
int64_t effective_batch(const TrainingSection& training);

// Steps that so many sequences or packs are; the last may have fewer.
int64_t steps_for(const TrainingSection& training, int64_t sequences);
// Of a number of epochs, which may be a fraction, all of so many steps.
int64_t steps_of_epochs(double epochs, int64_t steps_per_epoch);

// "" unless the keys contradict each other.
std::string find_batch_problem(const TrainingSection& training);

}  // namespace snug
