// Pass: by layer, which activations are kept for the backward pass and which are made again.
#pragma once

#include <vector>

#include "program/program.h"
#include "recipe/recipe.h"

namespace snug {

// `policies`: one per layer, or one for all, or empty for `none`; layers behind the last keep everything.
// The ops made again are the same ops on the same inputs, so the result has the same bits.
Program apply_recompute(Program program, const std::vector<Recompute>& policies);

}  // namespace snug
