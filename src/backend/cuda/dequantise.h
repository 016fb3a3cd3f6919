// Weights of codes to values, a slice at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "program/code_layout.h"

namespace snug::cuda {

struct CodeSlice {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};

// values [rows,columns] of the slice, row-major, in the format's dtype.
void dequantise(cudaStream_t stream, const CodeLayout& layout, const std::byte* weight,
                const CodeSlice& slice, void* values);

}  // namespace snug::cuda
