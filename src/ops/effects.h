// What ops do with their buffers, by the op table: the one fact on which verifier, lifetimes and placement
// live.
#pragma once

#include <vector>

#include "program/program.h"

namespace snug {

Effect effect_on_input(const Op& op, size_t input);
Effect effect_on_output(const Op& op, size_t output);

// First and last op that use a buffer; persistent ones and unused ones are marked as such by the reader.
struct Interval {
  int first = -1;
  int last = -1;
};

// When each buffer must hold its bytes, by the op indices of `program`: temporary ones and outputs from the
// op that writes them, inputs from op 0; outputs to the last op, the others to their last use. Index =
// BufferId. A buffer that no op uses has first == -1.
std::vector<Interval> lifetimes(const Program& program);

}  // namespace snug
