// LoRA's up product on Hopper, all parts in one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/backend.h"

namespace snug::cuda {

// Part i: y [T, its columns] += scale * down_i [T,r] B_i^T [r,rows]. False: not for this card, dtype, rank,
// alignment or number of parts; nothing was launched.
bool hopper_lora_up(const KernelCall& call, cudaStream_t stream);

}  // namespace snug::cuda
