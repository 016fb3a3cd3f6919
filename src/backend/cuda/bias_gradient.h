// The gradient of a bias: column sums, which no product gives.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

// dbias [out] = or += the sums over the tokens of dy [T,out]. `partials` holds bias_gradient_floats
// (backend/cuda_plan/row_sums.h).
void bias_gradient(cudaStream_t stream, const Tensor& dy, const Tensor& dbias, float* partials,
                   bool accumulate);

}  // namespace snug::cuda
