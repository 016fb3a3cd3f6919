// Learning rate by update, as transformers' schedulers give it.
#pragma once

#include <cstdint>

#include "recipe/recipe.h"

namespace snug {

// Warm-up steps that a recipe means for a run of `total_steps`.
int64_t warmup_steps(const TrainingSection& training, int64_t total_steps);

// The learning rate of update number `update` (the first is 0): linear warm-up from 0, then the schedule.
double learning_rate(const TrainingSection& training, int64_t update, int64_t total_steps);

}  // namespace snug
