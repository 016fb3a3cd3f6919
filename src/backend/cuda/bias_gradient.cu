// Column sums of dy, in fp32.
#include "backend/cuda/bias_gradient.h"

#include "backend/cuda/check.h"
#include "backend/cuda/column_sums.cuh"

namespace snug::cuda {
namespace {

template <typename T>
struct Element {
  const T* dy;
  int64_t columns;

  __device__ float operator()(int64_t row, int64_t column) const {
    return to_float(dy[row * columns + column]);
  }
};

}  // namespace

void bias_gradient(cudaStream_t stream, const Tensor& dy, const Tensor& dbias, float* partials,
                   bool accumulate) {
  with_type(dy.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    column_sums(stream, Element<T>{dy.as<T>(), dy.columns()}, partials, dbias, dy.rows(), accumulate);
  });
  check_launch("the gradient of a bias");
}

}  // namespace snug::cuda
