// The gradient of a bias: column sums, which no product gives.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

// Scratch floats for `rows` x `columns`.
int64_t bias_gradient_floats(int64_t rows, int64_t columns);

// dbias [out] = or += the sums over the tokens of dy [T,out].
void bias_gradient(cudaStream_t stream, const Tensor& dy, const Tensor& dbias, float* partials,
                   bool accumulate);

}  // namespace snug::cuda
