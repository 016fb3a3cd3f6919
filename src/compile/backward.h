// Pass: appends the gradient computation to a forward program that ends in a loss.
#pragma once

#include "program/program.h"

namespace snug {

// Reverse-mode differentiation over the gradient rules of the op table. Gradients of trainable weights are
// persistent buffers named "<weight>.grad", added to; everything else is temporary.
Program add_backward(Program forward);

}  // namespace snug
