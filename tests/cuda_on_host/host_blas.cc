// Matrix products on the host, in the place of cuBLASLt: sums in fp64, rounded once.
#include <cblas.h>

#include <vector>

#include "backend/cuda/blas.h"
#include "base/check.h"
#include "base/dtype.h"
#include "cuda_on_host/host_card.h"
#include "cuda_on_host/stream.h"

namespace snug::cuda {
namespace {

// Row by row, without what lies between rows; `scales` are those of rows.
std::vector<double> values_of(const Matrix& matrix, Float8 kind, const float* scales) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(matrix.rows * matrix.columns));
  std::vector<float> row(static_cast<size_t>(matrix.columns));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    Matrix part = matrix.row_block(r, 1);
    if (matrix.dtype == DType::u8) {
      for (size_t c = 0; c < row.size(); ++c) {
        row[c] = float8_value(kind, static_cast<const uint8_t*>(part.data)[c]);
      }
    } else {
      convert(matrix.dtype, part.data, DType::f32, row.data(), matrix.columns);
    }
    double scale = scales == nullptr ? 1.0 : double{scales[r]};
    for (float value : row) {
      values.push_back(scale * double{value});
    }
  }
  return values;
}

CBLAS_TRANSPOSE turned(bool transpose) {
  return transpose ? CblasTrans : CblasNoTrans;
}

void multiply(const Gemm& product) {
  std::vector<double> a = values_of(product.a, product.a_kind, product.a_scales);
  std::vector<double> b = values_of(product.b, Float8::e4m3, product.b_scales);
  auto m = static_cast<int>(product.c.rows);
  auto n = static_cast<int>(product.c.columns);
  auto k = static_cast<int>(product.transpose_a ? product.a.rows : product.a.columns);
  std::vector<double> c(static_cast<size_t>(m) * static_cast<size_t>(n));
  if (product.accumulate) {
    c = values_of(product.c, Float8::e4m3, nullptr);
  }
  std::vector<float> row(static_cast<size_t>(n));
  if (product.bias != nullptr) {
    convert(product.c.dtype, product.bias, DType::f32, row.data(), n);
    for (size_t i = 0; i < c.size(); ++i) {
      c[i] += double{row[i % row.size()]};
    }
  }
  cblas_dgemm(CblasRowMajor, turned(product.transpose_a), turned(product.transpose_b), m, n, k,
              double{product.alpha}, a.data(), static_cast<int>(product.a.columns), b.data(),
              static_cast<int>(product.b.columns), 1.0, c.data(), n);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      row[static_cast<size_t>(j)] =
          static_cast<float>(c[static_cast<size_t>(i) * row.size() + static_cast<size_t>(j)]);
    }
    convert(DType::f32, row.data(), product.c.dtype, product.c.row_block(i, 1).data, n);
  }
}

}  // namespace

Blas::Blas(bool tf32, bool scales_rows)
    : tf32_(tf32), scales_rows_(scales_rows && cuda_on_host::capability() == 90) {}
Blas::~Blas() = default;

void Blas::run(const Gemm& product, std::span<std::byte> /*workspace*/, cudaStream_t /*stream*/) {
  SNUG_CHECK(scales_rows_ || product.a_scales == nullptr, "a card without scales of rows was given some");
  cuda_on_host::enqueue([product] { multiply(product); });
}

}  // namespace snug::cuda

size_t cublasLtGetVersion() {
  return 0;
}
const char* cublasLtGetStatusString(cublasStatus_t /*status*/) {
  return "an error on the host";
}
