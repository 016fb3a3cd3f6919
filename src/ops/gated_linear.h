// A product joined with the gated activation behind it, as the two ops that it stands for.
#pragma once

#include "program/op.h"

namespace snug {

// Of gated_linear, which may want no activation, and gated_linear_backward. Where a gradient has nothing to
// add to and makes no activation again, the product's output is no buffer: a backend that makes the two apart
// has room for it in its scratch memory.
Op product_of(const Op& joined);
Op gate_of(const Op& joined);

}  // namespace snug
