// Both gradients of LoRA's up product on Hopper, all parts in one launch.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

// lora_up_backward for few tokens, with either gradient or both; each has the same bits by itself as beside
// the other. False: not for this card, dtype, rank, alignment or number of tokens or parts; nothing was
// launched.
bool hopper_lora_gradients(const KernelCall& call, cudaStream_t stream);

}  // namespace snug::cuda
