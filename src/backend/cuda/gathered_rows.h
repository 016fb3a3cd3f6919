// Rows of some tokens beside each other, and back to where they came from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace snug::cuda {

struct GatheredRows {
  const int32_t* tokens = nullptr;  // [count]: each a row of all, or -1: none
  int64_t count = 0;
  int64_t all_tokens = 0;
  int64_t width = 0;
  DType dtype = DType::f32;
};

// some [count, width] = the rows of all [all_tokens, width] at these tokens; zeros where there is none.
void gather_rows(cudaStream_t stream, const GatheredRows& rows, const void* all, void* some);

// The rows of all at these tokens = some; the other rows keep what they hold. Tokens are distinct.
void scatter_rows(cudaStream_t stream, const GatheredRows& rows, const void* some, void* all);

}  // namespace snug::cuda
