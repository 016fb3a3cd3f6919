// Whether weights are numbers at all.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "io/tensor_source.h"

namespace snug {

// Tensors of the source that hold NaN or infinities once they are in format `dtype`.
std::vector<std::string> tensors_not_finite(const TensorSource& source, DType dtype);

}  // namespace snug
