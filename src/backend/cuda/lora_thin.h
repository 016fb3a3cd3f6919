// Products of LoRA's small ranks, all parts of an op in one launch. So little is multiplied there that
// reading and writing y takes the time.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

// Each returns false if the rank is larger than 32, or the dtype, the alignment or the card is none for it;
// then nothing was launched.

// lora_up, where y is written and not added to.
bool thin_lora_up(const KernelCall& call, cudaStream_t stream);

// lora_up_backward, where both gradients are wanted: dy is read once for both.
bool thin_lora_gradient(const KernelCall& call, cudaStream_t stream);

}  // namespace snug::cuda
