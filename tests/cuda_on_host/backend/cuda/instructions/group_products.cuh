// In place of src/backend/cuda/instructions/group_products.cuh.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backend/cuda/instructions/hopper.cuh"
#include "cuda_on_host/products.h"

namespace snug::cuda {

inline void fence_products() {}
inline void commit_products() {
  cuda_on_host::meet(cuda_on_host::Those::warp, nullptr,
                     [](void* const*, int) { cuda_on_host::products_of_warp().end_group(); });
}
template <int kPending>
void wait_products() {
  cuda_on_host::meet(cuda_on_host::Those::warp, nullptr,
                     [](void* const*, int) { cuda_on_host::products_of_warp().finish(kPending); });
}
template <int kBlocks>
void settle(float (&/*sums*/)[1][kBlocks][4]) {}

struct GroupOperands {
  float* d;
  const uint32_t* left;  // in registers
  uint64_t a;
  uint64_t b;
  bool add;
};

using cuda_on_host::Left;

template <typename T, int kBlocks, Left kLeft, bool kRightByColumns>
void multiply_in_group(void* const* given, int count) {
  const auto* first = static_cast<const GroupOperands*>(given[0]);
  if (count != cuda_on_host::kWarpThreads || first == nullptr) {
    cuda_on_host::fail("a product needs all threads of a warp");
  }
  cuda_on_host::GroupProduct product{
      .is_half = std::is_same_v<T, __half>,
      .left = kLeft,
      .right_by_columns = kRightByColumns,
      .add = first->add,
      .columns = 8 * kBlocks,
      .warp = cuda_on_host::thread_number() % cuda_on_host::kGroupThreads / cuda_on_host::kWarpThreads,
      .a = first->a,
      .b = first->b,
      .d = {},
      .left_words = {}};
  for (size_t i = 0; i < product.d.size(); ++i) {
    const auto* mine = static_cast<const GroupOperands*>(given[i]);
    if (mine == nullptr || mine->a != first->a || mine->b != first->b || mine->add != first->add) {
      cuda_on_host::fail("a product needs all threads of a warp, with the same operands");
    }
    product.d[i] = mine->d;
    if constexpr (kLeft == Left::registers) {
      std::memcpy(product.left_words[i].data(), mine->left, sizeof product.left_words[i]);
    }
  }
  cuda_on_host::products_of_warp().add([product] { cuda_on_host::multiply(product); });
}

template <typename T, Left kLeft, bool kRightByColumns, int kBlocks>
void start_group_product(float (&d)[kBlocks][4], const uint32_t* left, uint64_t a, uint64_t b, int add) {
  GroupOperands mine{&d[0][0], left, a, b, add != 0};
  cuda_on_host::meet(cuda_on_host::Those::warp, &mine, multiply_in_group<T, kBlocks, kLeft, kRightByColumns>);
}

template <typename T, int kBlocks>
void product_of_rows(float (&d)[kBlocks][4], uint64_t a, uint64_t b, int add) {
  start_group_product<T, Left::rows, false>(d, nullptr, a, b, add);
}
template <typename T, int kBlocks>
void product_rows_columns(float (&d)[kBlocks][4], uint64_t a, uint64_t b, int add) {
  start_group_product<T, Left::rows, true>(d, nullptr, a, b, add);
}
template <typename T, int kBlocks>
void product_of_columns(float (&d)[kBlocks][4], uint64_t a, uint64_t b, int add) {
  start_group_product<T, Left::columns, true>(d, nullptr, a, b, add);
}
template <typename T, int kBlocks>
void product_with_columns(float (&d)[kBlocks][4], const uint32_t (&a)[4], uint64_t b) {
  start_group_product<T, Left::registers, true>(d, a, 0, b, 1);
}
template <typename T, int kBlocks>
void first_product_of_rows(float (&d)[kBlocks][4], uint64_t a, uint64_t b) {
  product_of_rows<T>(d, a, b, 0);
}
template <typename T, int kBlocks>
void first_product_of_columns(float (&d)[kBlocks][4], uint64_t a, uint64_t b) {
  product_of_columns<T>(d, a, b, 0);
}

}  // namespace snug::cuda
