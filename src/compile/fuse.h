// Pass: joins neighbouring ops into one pass over memory.
#pragma once

#include "program/program.h"

namespace snug {

// add followed by the rms_norm of its sum becomes add_rms_norm: the same arithmetic, one pass.
Program fuse_additions(Program program);

// head_norm followed by the rope of its heads becomes head_norm_rope, and rope back followed by head_norm's
// gradient head_norm_rope_backward: the same arithmetic, one pass. What lay between them has no buffer any
// more.
Program fuse_head_norms(Program program);

// The two gradients of an adapter's up product become one op where they follow each other: one launch, or one
// reading of dy.
Program fuse_adapter_gradients(Program program);

// A gated activation that is made again for the backward pass is made by its own gradient, which reads gate
// and up in any case; what needs it waits until then.
Program fuse_gates_made_again(Program program);

// A product of 16-bit numbers that is added to an adapter's share becomes one op with it: cards that can make
// both in one go need not write the share down. Comes when it is known which of the two is the later one
// (compile/sum_order.h).
Program fuse_adapted_products(Program program);

// A product of 16-bit numbers whose result a gated activation reads at once, forward or in the gradient,
// becomes one op with it: cards that can do both at once need not write it down in between. Comes behind
// fuse_adapted_products.
Program fuse_gated_products(Program program);

}  // namespace snug
