// Scratch memory of Adafactor's kernels, which take one tensor after the other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cuda_plan/optimizer_blocks.h"
#include "backend/cuda_plan/scratch.h"
#include "program/op.h"

namespace snug::cuda {

// Rows whose squares one thread adds up for a column; a matrix has at most kMostRowChunks such pieces.
inline constexpr int64_t kLeastChunkRows = 64;
inline constexpr int64_t kMostRowChunks = 64;

inline int64_t chunk_rows(int64_t rows) {
  return std::max(kLeastChunkRows, (rows + kMostRowChunks - 1) / kMostRowChunks);
}
inline int64_t row_chunks(int64_t rows) {
  return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

// What one step, and one tensor, leave for the kernels that follow.
struct AdafactorNumbers {
  float gradient_scale;
  float beta;
  float one_minus_beta;
  float learning_rate;
  float mean_of_rows;
  float step_size;
};

struct AdafactorScratch {
  AdafactorNumbers* numbers;
  float* row_factors;
  float* column_factors;
  double* column_sums;  // [row chunks, columns]
  double* sums;         // of U^2, one a block

  AdafactorScratch(Scratch scratch, const FactoredTensor& tensor)
      : numbers(scratch.take<AdafactorNumbers>(1)),
        row_factors(scratch.take<float>(tensor.rows)),
        column_factors(scratch.take<float>(tensor.row_length())),
        column_sums(scratch.take<double>(row_chunks(tensor.rows) * tensor.row_length())),
        sums(scratch.take<double>(blocks_of(tensor.elements()))) {}

  static int64_t bytes(const FactoredTensor& tensor) {
    return padded_bytes_of<AdafactorNumbers>(1) + padded_bytes_of<float>(tensor.rows) +
           padded_bytes_of<float>(tensor.row_length()) +
           padded_bytes_of<double>(row_chunks(tensor.rows) * tensor.row_length()) +
           padded_bytes_of<double>(blocks_of(tensor.elements()));
  }
};

}  // namespace snug::cuda
