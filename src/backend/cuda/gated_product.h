// Products on Hopper with a gated activation, or its gradient, where their tiles are written.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

// A call of gated_linear, and one of gated_linear_backward. False: not for this card, dtype, function or
// alignment; nothing was launched.
bool hopper_gated_product(const KernelCall& call, cudaStream_t stream);
bool hopper_gated_gradient(const KernelCall& call, cudaStream_t stream);

}  // namespace snug::cuda
