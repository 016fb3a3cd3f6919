// Gradients in bf16 among others, for tests of updates on the CPU and on the card.
#pragma once

#include "program/program.h"

namespace snug {

// Every second of the gradients g0, g1, ... in bf16.
inline Program with_rounded_gradients(Program program) {
  for (size_t i = 0; program.find("g" + std::to_string(i)) != kNoBuffer; i += 2) {
    program.buffer(program.find("g" + std::to_string(i))).format = DType::bf16;
  }
  return program;
}

}  // namespace snug
