// Pass: the update program that goes with a training program.
#pragma once

#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// Global gradient norm, then AdamW over all trainable buffers of `train`. A parameter that is not fp32 keeps
// an fp32 master ("<name>.master"), from which its compute copy is rounded after each update.
Program build_update(const Program& train, const TrainingSection& training);

// The persistent buffer that holds the exact value of a trainable buffer.
std::string master_name(const Buffer& parameter);

}  // namespace snug
