// Every CUDA call goes through check(): a failure becomes an environment_error that names cause and remedy.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

namespace snug::cuda {

// What is wrong with a driver that knows CUDA `found` (13000 for 13.0; 0: there is none) where `needed` is
// needed.
std::string driver_problem(int found, int needed);

// `doing` completes "while ...": "copying to the card".
void check(cudaError_t status, const char* doing);
void check(cublasStatus_t status, const char* doing);

// After a kernel launch: a refused configuration shows here, a fault inside the kernel at a later check().
inline void check_launch(const char* doing) {
  check(cudaGetLastError(), doing);
}

}  // namespace snug::cuda
