// The CUDA backend's table of kernels: one row a kind.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "backend/backend.h"

namespace snug::cuda {

class Blas;

// What a kernel gets beyond its call: the one stream that everything runs on, and the matrix products.
struct Queue {
  cudaStream_t stream = nullptr;
  Blas* blas = nullptr;
};

struct Kernel {
  void (*run)(const Queue&, const KernelCall&) = nullptr;
  // Null: needs none.
  int64_t (*workspace_bytes)(const Program&, const Op&) = nullptr;
  // Beyond the dtypes that all kernels share: "" or what is missing. Null: nothing to add.
  std::string (*find_unsupported)(const Program&, const Op&) = nullptr;
};

const Kernel& kernel_of(OpKind kind);

}  // namespace snug::cuda
