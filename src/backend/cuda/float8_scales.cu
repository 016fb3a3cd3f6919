// Scales of rows for products of 8 bits where the library has none (Ada, Blackwell): the product is of the
// codes alone, and its result is scaled in a pass of its own. What it is added to is divided by the scales
// before. Scales are powers of two, so that both are exact and the result is rounded once, as it is on
// Hopper.
#include "backend/cuda/check.h"
#include "backend/cuda/float8.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTogether = 8;  // values

struct RowScales {
  const float* rows = nullptr;     // [T]
  const float* columns = nullptr;  // [n]: those of b's rows
};

// Of an element whose row and column have these scales. Where there is hardly anything but zeros both are so
// small that their product is no number, and neither would be what it divides: it is bounded, as long as what
// it scales is far below all that matters. NaN stays NaN.
__device__ inline float scale_of(float row, float column) {
  constexpr float kLeast = 0x1p-100F;
  float scale = row * column;
  return scale < kLeast ? kLeast : scale;
}

// c [T,n] = c * scales + bias [n], which may be null; or c /= scales, which takes no bias.
template <typename T, bool kDivides>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(T* c, int64_t n, int64_t stride, RowScales scales, const T* bias) {
  int64_t column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kTogether;
  if (column >= n) {
    return;
  }
  float row_scale = scales.rows[blockIdx.y];
  T* at = c + blockIdx.y * stride + column;
  Vector<T, kTogether> values = load<kTogether>(at);
  Vector<float, kTogether> columns = load<kTogether>(scales.columns + column);
  Vector<T, kTogether> added{};
  bool adds = !kDivides && bias != nullptr;
  if (adds) {
    added = load<kTogether>(bias + column);
  }
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    float scale = scale_of(row_scale, columns.at[i]);
    float scaled = to_float(values.at[i]) * (kDivides ? 1.0F / scale : scale);
    values.at[i] = round_to<T>(adds ? scaled + to_float(added.at[i]) : scaled);
  }
  store<kTogether>(at, values);
}

}  // namespace

void run_with_row_scales(const Queue& queue, const Gemm& product, std::span<std::byte> workspace) {
  const Matrix& c = product.c;
  if (queue.blas->scales_rows() || c.rows == 0) {
    queue.blas->run(product, workspace, queue.stream);
    return;
  }
  SNUG_CHECK(c.columns % kTogether == 0 && c.stride % kTogether == 0, "rows of results are whole vectors");
  SNUG_CHECK(c.dtype == DType::bf16, "fp16 has too small a range for sums of codes");
  constexpr int64_t kMostRows = 65535;  // blocks along y
  RowScales scales{product.a_scales, product.b_scales};
  Gemm codes = product;
  codes.a_scales = codes.b_scales = nullptr;
  codes.bias = nullptr;
  // Calls pass(blocks, first row's place, its scales) for as many rows at once as a launch can have.
  auto for_rows = [&](const auto& pass) {
    for (int64_t row = 0; row < c.rows; row += kMostRows) {
      dim3 blocks(blocks_for(c.columns, kThreads * kTogether),
                  static_cast<unsigned>(std::min(kMostRows, c.rows - row)));
      pass(blocks, static_cast<__nv_bfloat16*>(c.data) + row * c.stride,
           RowScales{scales.rows + row, scales.columns});
    }
    check_launch("scaling a product of 8 bits");
  };
  if (product.accumulate) {
    for_rows([&](dim3 blocks, __nv_bfloat16* at, const RowScales& of_rows) {
      scale_kernel<__nv_bfloat16, true>
          <<<blocks, kThreads, 0, queue.stream>>>(at, c.columns, c.stride, of_rows, nullptr);
    });
  }
  queue.blas->run(codes, workspace, queue.stream);
  for_rows([&](dim3 blocks, __nv_bfloat16* at, const RowScales& of_rows) {
    scale_kernel<__nv_bfloat16, false><<<blocks, kThreads, 0, queue.stream>>>(
        at, c.columns, c.stride, of_rows, static_cast<const __nv_bfloat16*>(product.bias));
  });
}

}  // namespace snug::cuda
