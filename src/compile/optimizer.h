// Pass: the update program that goes with a training program.
#pragma once

#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// Global gradient norm, then AdamW or Adafactor over all trainable buffers of `train`. A bf16
// parameter is the upper half of the fp32 number that is updated, and "<name>.rest" the lower one; without
// fp32 optimizer states it has none and is rounded stochastically. An fp16 parameter is rounded from an fp32
// master
// ("<name>.master") after each update.
Program build_update(const Program& train, const TrainingSection& training);

// For a training program that computes in fp16: its input "scale" becomes the input "share" times the loss
// scale of the clock.
Program add_loss_scale(Program train);

}  // namespace snug
