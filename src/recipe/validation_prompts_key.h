// training.validation_prompts: what a run's evaluations have the model answer, for people to read.
#pragma once

#include "recipe/keys.h"

namespace snug {

RecipeKey validation_prompts_key();

}  // namespace snug
