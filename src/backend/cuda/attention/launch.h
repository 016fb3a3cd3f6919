// Attention on the card: its launchers.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda_plan/attention.h"

namespace snug::cuda {

// Both only enqueue kernels on `stream`: no allocation, no synchronisation, and the same bits on every run.
// The bits of dk and dv may differ between batches of very different size (how many blocks share a tile
// depends on `keys`).
cudaError_t attention_forward(const AttentionParameters& parameters, cudaStream_t stream);
cudaError_t attention_backward(const AttentionParameters& parameters, cudaStream_t stream);

}  // namespace snug::cuda
