// Sums over rows, for gradients of weights: rows are cut into slices by their number alone, every slice is
// summed in order, and the slices are summed in order. The same sizes give the same bits.
#pragma once

#include "backend/cuda/vectors.cuh"
#include "backend/cuda_plan/row_sums.h"

namespace snug::cuda {

inline constexpr int kColumnThreads = 128;

// partials[slice][column] = the sum over the slice's rows of term(row, column). Blocks: (columns, slices).
template <typename Term>
__global__ void sum_slices(Term term, float* partials, int64_t rows, int64_t columns) {
  int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (column >= columns) {
    return;
  }
  int64_t slice = blockIdx.y;
  int64_t slices = gridDim.y;
  float sum = 0;
  for (int64_t row = rows * slice / slices; row < rows * (slice + 1) / slices; ++row) {
    sum += term(row, column);
  }
  partials[slice * columns + column] = sum;
}

inline constexpr int kAddedColumns = 32;
inline constexpr int kAddingGroups = 16;

// y[column] (= or +=) the sum over the slices of partials[slice][column]: every group of threads adds up some
// neighbouring slices in order, then the groups are added in order.
static __global__ void __launch_bounds__(kAddedColumns* kAddingGroups)
    add_slices(const float* partials, float* y, int64_t slices, int64_t columns, bool accumulate) {
  __shared__ float sums[kAddingGroups][kAddedColumns];
  int lane = static_cast<int>(threadIdx.x) % kAddedColumns;
  int group = static_cast<int>(threadIdx.x) / kAddedColumns;
  int64_t column = static_cast<int64_t>(blockIdx.x) * kAddedColumns + lane;
  float sum = 0;
  if (column < columns) {
    int64_t end = slices * (group + 1) / kAddingGroups;
#pragma unroll 8
    for (int64_t slice = slices * group / kAddingGroups; slice < end; ++slice) {
      sum += partials[slice * columns + column];
    }
  }
  sums[group][lane] = sum;
  __syncthreads();
  if (group > 0 || column >= columns) {
    return;
  }
  for (int i = 1; i < kAddingGroups; ++i) {
    sum += sums[i][lane];
  }
  y[column] = accumulate ? y[column] + sum : sum;
}

inline void add_up_slices(cudaStream_t stream, const float* partials, const Tensor& y, int64_t slices,
                          bool accumulate) {
  add_slices<<<blocks_for(y.elements(), kAddedColumns), kAddedColumns * kAddingGroups, 0, stream>>>(
      partials, y.as<float>(), slices, y.elements(), accumulate);
}

// y[column] (= or +=) the sum over all rows of term(row, column). `partials` holds slice_count(rows) *
// columns.
template <typename Term>
void column_sums(cudaStream_t stream, const Term& term, float* partials, const Tensor& y, int64_t rows,
                 bool accumulate) {
  int64_t columns = y.elements();
  int64_t slices = slice_count(rows);
  unsigned blocks = blocks_for(columns, kColumnThreads);
  sum_slices<<<dim3(blocks, static_cast<unsigned>(slices)), kColumnThreads, 0, stream>>>(term, partials, rows,
                                                                                         columns);
  add_up_slices(stream, partials, y, slices, accumulate);
}

}  // namespace snug::cuda
