// Products of few rows with a weight of codes.
#pragma once

#include "backend/cuda/blas.h"
#include "program/code_layout.h"

namespace snug::cuda {

// Up to so many rows of A it takes less to look codes up while they are multiplied than to write their values
// to memory first.
inline constexpr int64_t kFewRows = 8;

// C = or += alpha * A W^T (+ bias), with W of the layout at `weight`; product.b is not looked at.
void multiply_few_rows(cudaStream_t stream, const Gemm& product, const CodeLayout& layout,
                       const std::byte* weight);

}  // namespace snug::cuda
