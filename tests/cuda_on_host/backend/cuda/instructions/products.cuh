// In place of src/backend/cuda/instructions/products.cuh.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda_on_host/products.h"

namespace snug::cuda {

struct ProductOperands {
  float* d;
  const uint32_t* a;
  std::array<uint32_t, 2> b;
};

template <typename T>
void multiply_together(void* const* given, int /*count*/) {
  cuda_on_host::WarpProduct product;
  product.is_half = std::is_same_v<T, __half>;
  for (size_t lane = 0; lane < cuda_on_host::kWarpThreads; ++lane) {
    if (given[lane] == nullptr) {
      cuda_on_host::fail("a product needs all threads of a warp");
    }
    const auto& mine = *static_cast<const ProductOperands*>(given[lane]);
    product.d[lane] = mine.d;
    product.a[lane] = mine.a;
    product.b[lane] = mine.b;
  }
  cuda_on_host::multiply(product);
}

template <typename T>
void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  ProductOperands mine{d, a, {b0, b1}};
  cuda_on_host::meet(cuda_on_host::Those::warp, &mine, multiply_together<T>);
}

}  // namespace snug::cuda
