// Tensors to codes on their way into the arena.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "exec/executor.h"

namespace snug {

// Writes the values of a tensor from element `first` on, in fp32.
using FillValues = std::function<void(int64_t first, std::span<float> values)>;

// Codes, scales and maps of one part of a weight of codes, from the tensor's values. They pass through the
// load phase's staging buffers in pieces; nothing else may be using them.
void place_codes(Executor& executor, const Buffer& weight, const TensorPart& part, const FillValues& fill);

}  // namespace snug
