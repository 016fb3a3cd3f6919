// Why a first loss is not finite: before anything was learned, it is the weights or the format.
#pragma once

#include <string>

#include "train/trainer.h"

namespace snug {

std::string explain_first_loss(const TrainInputs& inputs);

}  // namespace snug
