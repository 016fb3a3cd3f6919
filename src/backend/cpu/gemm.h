// C = alpha * A B + C on matrices of fp32 or bf16, of codes, or rounded to 8 bits on the way. Products and
// sums are fp32 throughout; what is not fp32 is converted block by block through the workspace, so that no
// matrix is ever held twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "base/float8.h"
#include "program/code_layout.h"

namespace snug::cpu {

// What is done to a matrix while it is read: its rows become floating-point numbers of 8 bits. With scales of
// columns it is their products that are rounded.
struct RowRounding {
  Float8 kind = Float8::e4m3;
  const float* row_scales = nullptr;
  const float* column_scales = nullptr;  // powers of two; null: all are 1
};

// A row-major matrix as it lies in memory.
struct MatrixView {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;  // elements from one row to the next
  // A weight of codes: `data` is where all of it begins, the view's first element is this one, and `dtype` is
  // what its values are rounded to. Must outlive the view.
  const CodeLayout* codes = nullptr;
  int64_t first_row = 0;
  int64_t first_column = 0;
  const RowRounding* rounding = nullptr;  // of a plain matrix; must outlive the view

  bool is_fp32() const { return dtype == DType::f32 && codes == nullptr && rounding == nullptr; }
  Format format() const {
    return codes != nullptr ? codes->format : rounding != nullptr ? kFp8 : Format(dtype);
  }
  void* at(int64_t row, int64_t column) const {
    return static_cast<std::byte*>(data) + (row * stride + column) * size_of(dtype);
  }
  MatrixView block(int64_t row, int64_t column, int64_t row_count, int64_t column_count) const {
    if (codes != nullptr) {
      return {data, dtype, row_count, column_count, stride, codes, first_row + row, first_column + column};
    }
    return {.data = at(row, column),
            .dtype = dtype,
            .rows = row_count,
            .columns = column_count,
            .stride = stride,
            .first_row = first_row + row,
            .first_column = first_column + column,
            .rounding = rounding};
  }
  MatrixView column_block(int64_t column, int64_t count) const { return block(0, column, rows, count); }
  MatrixView row_block(int64_t row, int64_t count) const { return block(row, 0, count, columns); }
};

inline MatrixView matrix(const Tensor& tensor) {
  return {tensor.data, tensor.dtype, tensor.rows(), tensor.columns(), tensor.columns()};
}

// A weight of any format; `layout` is where its layout is put if it is of codes, and must outlive the view.
inline MatrixView weight_matrix(const Tensor& weight, CodeLayout& layout) {
  if (weight.coded == nullptr) {
    return matrix(weight);
  }
  layout = code_layout(*weight.coded);
  return {weight.data, layout.format.dtype, weight.rows(), weight.columns(), weight.columns(), &layout};
}

struct Gemm {
  MatrixView a;  // m x k, or k x m if transpose_a
  MatrixView b;  // k x n, or n x k if transpose_b
  MatrixView c;  // m x n
  bool transpose_a = false;
  bool transpose_b = false;
  float alpha = 1.0F;
  bool accumulate = false;      // C += instead of C =
  const float* bias = nullptr;  // n numbers that are added to each row of C
};

// Sizes at most, for planning.
struct GemmSizes {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Format a = DType::f32;
  Format b = DType::f32;
  Format c = DType::f32;
};

// For a product that so many threads share. 0 if all matrices are fp32.
int64_t gemm_workspace_bytes(const GemmSizes& sizes, int threads);

// Uses all threads; inside a parallel region it runs on the calling thread alone.
void gemm(const Gemm& product, std::span<std::byte> workspace);

// Conversions of blocks between the stored format and fp32, row by row; codes are not written.
void load_block(const MatrixView& source, float* destination, int64_t destination_stride);
void store_block(const float* source, int64_t source_stride, const MatrixView& destination);
// The matrix itself if it is fp32, else an fp32 copy of it in `block`.
MatrixView as_floats(const MatrixView& source, float* block);

}  // namespace snug::cpu
