// Slices of weights and the products with them, or few rows at once.
#include "backend/cuda/coded_product.h"

#include <algorithm>

#include "backend/cuda/dequantise.h"
#include "backend/cuda/few_rows.h"
#include "backend/cuda/float8.h"
#include "backend/cuda_plan/code_slices.h"
#include "backend/cuda_plan/scratch.h"

namespace snug::cuda {

void run_coded(const Queue& queue, Gemm product, const Tensor& weight, std::span<std::byte> workspace) {
  CodeLayout layout = code_layout(*weight.coded);
  if (layout.format.coding == Coding::fp8) {
    run_float8(queue, product, layout, weight, workspace);
    return;
  }
  DType dtype = layout.format.dtype;
  if (product.transpose_b && product.a.rows <= kFewRows && product.c.dtype == dtype) {
    multiply_few_rows(queue.stream, product, layout, weight.as<std::byte>());
    return;
  }
  // W^T: rows of W are columns of C. W: columns are.
  bool by_rows = product.transpose_b;
  int64_t count = by_rows ? weight.rows() : weight.columns();
  int64_t across = by_rows ? weight.columns() : weight.rows();
  int64_t size = slice_size(count, across, dtype);
  Scratch scratch(workspace);
  auto* values = scratch.take<std::byte>(size * across * size_of(dtype));
  Matrix c = product.c;
  const auto* bias = static_cast<const std::byte*>(product.bias);
  for (int64_t begin = 0; begin < count; begin += size) {
    int64_t now = std::min(size, count - begin);
    CodeSlice slice = by_rows ? CodeSlice{begin, now, 0, across} : CodeSlice{0, across, begin, now};
    dequantise(queue.stream, layout, weight.as<std::byte>(), slice, values);
    product.b = {values, dtype, slice.rows, slice.columns, slice.columns};
    product.c = c.column_block(begin, now);
    product.bias = bias == nullptr ? nullptr : bias + begin * size_of(c.dtype);
    queue.blas->run(product, scratch.rest(), queue.stream);
  }
}

}  // namespace snug::cuda
