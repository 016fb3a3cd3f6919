// Products on Hopper that begin with an adapter's share.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

// A call of linear or of linear_backward_input that has an adapter. False: not for this card, dtype,
// alignment, or number of tokens; nothing was launched.
bool hopper_adapted_product(const KernelCall& call, cudaStream_t stream);

}  // namespace snug::cuda
