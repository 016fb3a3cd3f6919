// Rows of floating-point numbers of 8 bits on a card (base/float8.h), and weights of them transposed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/blas.h"
#include "backend/cuda/kernels.h"
#include "base/float8.h"
#include "program/code_layout.h"

namespace snug::cuda {

// codes [T,columns] and scales [T] of x [T,columns], which lies without gaps and may be the host's pinned
// memory. With scales of columns, powers of two, it is their products with x that become codes.
struct Float8Rows {
  Float8 kind = Float8::e4m3;
  const float* column_scales = nullptr;  // null: all are 1
  uint8_t* codes = nullptr;
  float* scales = nullptr;
};
void cast_rows(cudaStream_t stream, const Matrix& x, const Float8Rows& rows);

// A product with a weight of fp8: `product` as it would be with a plain one, but for b. a is cast row by row
// into the workspace; so is, where it is not W^T that is multiplied with, the weight transposed, as products
// of 8 bits read both operands along the inner dimension.
void run_float8(const Queue& queue, Gemm product, const CodeLayout& layout, const Tensor& weight,
                std::span<std::byte> workspace);

// A product of 8-bit numbers whose rows have scales, powers of two, on cards whose library multiplies with
// them and on those where it does not.
void run_with_row_scales(const Queue& queue, const Gemm& product, std::span<std::byte> workspace);

}  // namespace snug::cuda
