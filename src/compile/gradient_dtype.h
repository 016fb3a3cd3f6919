// Pass: gradients of weights in bf16.
#pragma once

#include "program/program.h"

namespace snug {

// Of a training program: the gradients that only ops add to which sum in fp32 and round to nearest (by the op
// table) become bf16: those of matrices.
Program round_gradients(Program train);

}  // namespace snug
