// Tensors to codes on their way into the arena.
#pragma once

#include <cstdint>
#include <functional>

#include "exec/executor.h"
#include "io/tensor_source.h"
#include "train/staging.h"

namespace snug {

// Writes `count` values of a tensor from element `first` on, in the dtype of the weight's format. Several
// threads call it at once.
using FillValues = std::function<void(int64_t first, int64_t count, void* values)>;

// Codes, scales and maps of one part of a weight of codes, from the tensor's values. They pass through the
// staging buffer in pieces; the device makes codes of them.
void place_codes(Executor& executor, Staging& staging, const Buffer& weight, const TensorPart& part,
                 const FillValues& fill);

// The same of a tensor that the file holds as codes of the weight's format: not a bit of them changes.
void copy_codes(Executor& executor, Staging& staging, const Buffer& weight, const TensorPart& part,
                const CodedTensor& tensor);

}  // namespace snug
