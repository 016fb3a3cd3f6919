// What the CUDA kernels need and support, kind by kind. Host code without a line of CUDA, in every build: a
// plan for a card is made anywhere, and the backend on the card asks here too.
#pragma once

#include <string>

#include "program/program.h"

namespace snug::cuda {

// "" if there is a kernel for this op on these buffers on a card of this compute capability (90 for 9.0; 0:
// not known); else what is missing.
std::string find_unsupported(const Program& program, const Op& op, int capability);

// Scratch memory that its kernel takes at the planned sizes: the same on every card.
int64_t workspace_bytes(const Program& program, const Op& op);

}  // namespace snug::cuda
