// The numbers that schedules take beside the learning rate and the warm-up, under transformers' names.
#pragma once

#include <array>
#include <string>

#include "recipe/key_types.h"
#include "recipe/recipe.h"

namespace snug {

inline constexpr std::array<NamedNumber, 6> kSchedulerKwargs = {{
    {"num_cycles", kAboveZero},
    {"min_lr", kAtLeastZero},
    {"min_lr_rate", kZeroToOne},
    {"power", kAboveZero},
    {"lr_end", kAtLeastZero},
    {"timescale", kAboveZero},
}};

// What a schedule, its numbers and its warm-up have against each other; "" for nothing. Transformers refuses
// some of it and ignores the rest in silence.
std::string find_schedule_problem(const TrainingSection& training);

// "" unless the warm-up is longer than a run of `total_steps`.
std::string find_warmup_problem(const TrainingSection& training, int64_t total_steps);

}  // namespace snug
