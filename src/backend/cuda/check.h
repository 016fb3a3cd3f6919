// Every CUDA call goes through check(): a failure becomes an environment_error that names cause and remedy.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace snug::cuda {

// `doing` completes "while ...": "copying to the card".
void check(cudaError_t status, const char* doing);
void check(cublasStatus_t status, const char* doing);

// After a kernel launch: a refused configuration shows here, a fault inside the kernel at a later check().
inline void check_launch(const char* doing) {
  check(cudaGetLastError(), doing);
}

}  // namespace snug::cuda
