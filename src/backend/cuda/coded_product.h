// Products with a weight of codes.
#pragma once

#include "backend/cuda/blas.h"
#include "backend/cuda/kernels.h"

namespace snug::cuda {

// `product` as it would be with a plain weight, but for b, which is `weight`: slices of it are dequantised
// into the workspace, each multiplied before the next takes its place. A slice makes columns of C of its own.
// Few rows are multiplied with the codes themselves.
void run_coded(const Queue& queue, Gemm product, const Tensor& weight, std::span<std::byte> workspace);

}  // namespace snug::cuda
