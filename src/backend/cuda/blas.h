// Matrix products by cuBLASLt: row-major matrices with any stride, fp32 sums, and an algorithm a shape that
// is chosen once and remembered. Batches whose numbers of tokens are of one size class share it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "backend/backend.h"
#include "backend/cuda_plan/products.h"
#include "base/float8.h"

namespace snug::cuda {

// A row-major matrix as it lies in memory.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  // elements from one row to the next

  Matrix block(int64_t row, int64_t column, int64_t row_count, int64_t column_count) const {
    auto* at = static_cast<std::byte*>(data) + (row * stride + column) * size_of(dtype);
    return {at, dtype, row_count, column_count, stride};
  }
  Matrix column_block(int64_t column, int64_t count) const { return block(0, column, rows, count); }
  Matrix row_block(int64_t row, int64_t count) const { return block(row, 0, count, columns); }
};

inline Matrix matrix(const Tensor& tensor) {
  return {tensor.data, tensor.dtype, tensor.rows(), tensor.columns(), tensor.columns()};
}

struct Gemm {
  Matrix a;  // m x k, or k x m if transpose_a; its rows are a batch's tokens
  Matrix b;  // k x n, or n x k if transpose_b; the dtype of a
  Matrix c;  // m x n; the dtype of a, or fp32; of 8-bit numbers, bf16 or fp16
  bool transpose_a = false;
  bool transpose_b = false;
  float alpha = 1.0F;
  bool accumulate = false;     // C += instead of C =
  const void* bias = nullptr;  // n numbers of C's dtype that are added to each row of C
  // Operands of 8-bit floating-point numbers (u8): a m x k, b n x k, whose rows have scales. Null: all are 1.
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  Float8 a_kind = Float8::e4m3;  // b's is e4m3
};

class Blas {
 public:
  // tf32: fp32 products with 10 bits of mantissa, on the tensor cores of Ampere and later. scales_rows:
  // whether to use scales of rows where the card's library has them.
  explicit Blas(bool tf32, bool scales_rows = true);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // C = or += alpha * A B (+ bias). The same call gives the same bits: the algorithm follows from the shape
  // alone, and none is taken that adds up in an order of its own.
  void run(const Gemm& product, std::span<std::byte> workspace, cudaStream_t stream);

  // Whether products of 8-bit numbers can have scales of rows; else they come without any.
  bool scales_rows() const { return scales_rows_; }

  // How many algorithms have been chosen and are remembered.
  size_t choices() const { return choices_.size(); }

 private:
  // Sizes, strides, alignments and flags.
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, uint32_t, uint32_t>;
  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    bool left_to_units = false;  // the sums, which are of 8-bit numbers
  };
  struct Guesses;
  struct Descriptors;

  const Choice& choice_for(const Gemm& product);
  Guesses guesses_for(const Gemm& product, bool left_to_units) const;

  cublasLtHandle_t handle_ = nullptr;
  bool tf32_;
  bool is_hopper_ = false;
  bool scales_rows_;
  int multiprocessors_ = 0;
  std::map<Key, Choice> choices_;
};

}  // namespace snug::cuda
