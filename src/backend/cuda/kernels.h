// The CUDA backend's table of kernels: one row a kind. What they need and support stands apart, in
// backend/cuda_plan, where every build can see it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

class Blas;

// What a kernel gets beyond its call: the one stream that everything runs on, and the matrix products.
struct Queue {
  cudaStream_t stream = nullptr;
  Blas* blas = nullptr;
};

using Kernel = void (*)(const Queue&, const KernelCall&);

Kernel kernel_of(OpKind kind);

}  // namespace snug::cuda
