// Pass: the update program that goes with a training program.
#pragma once

#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// Global gradient norm, then AdamW or Adafactor over all trainable buffers of `train`. A parameter that is
// not fp32 keeps an fp32 master ("<name>.master"), from which its compute copy is rounded after each update;
// without fp32 optimizer states, a bf16 parameter has none and is updated itself.
Program build_update(const Program& train, const TrainingSection& training);

// For a training program that computes in fp16: its input "scale" becomes the input "share" times the loss
// scale of the clock.
Program add_loss_scale(Program train);

// The persistent buffer that holds the exact value of a trainable buffer, where there is one beside it.
std::string master_name(const Buffer& parameter);

}  // namespace snug
