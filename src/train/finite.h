// Whether weights are numbers at all.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "io/safetensors.h"

namespace snug {

// Tensors of the files that hold NaN or infinities once they are in format `dtype`.
std::vector<std::string> tensors_not_finite(const SafetensorsSet& files, DType dtype);

}  // namespace snug
