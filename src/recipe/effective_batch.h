// How many sequences make up a step: said directly, or as a product.
#pragma once

#include <cstdint>
#include <string>

#include "recipe/recipe.h"

namespace snug {

// Sequences a step, or packs.
int64_t effective_batch(const TrainingSection& training);

// "" unless the keys contradict each other.
std::string find_batch_problem(const TrainingSection& training);

}  // namespace snug
