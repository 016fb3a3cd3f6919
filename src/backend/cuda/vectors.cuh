// What the kernels share: element types, 16-byte vectors, stores with = or +=, and sums over a block.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/backend.h"
#include "base/check.h"

namespace snug::cuda {

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float to_float(__half value) {
  return __half2float(value);
}

// Rounds to nearest, ties to even.
template <typename T>
__device__ inline T round_to(float value);
template <>
__device__ inline float round_to<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 round_to<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half round_to<__half>(float value) {
  return __float2half_rn(value);
}

// N neighbouring elements, moved in one access.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
  T at[N];
};

template <int N, typename T>
__device__ inline Vector<T, N> load(const T* source) {
  return *reinterpret_cast<const Vector<T, N>*>(source);
}
template <int N, typename T>
__device__ inline void store(T* destination, const Vector<T, N>& values) {
  *reinterpret_cast<Vector<T, N>*>(destination) = values;
}

// destination (= or +=) values; the sum is made in fp32 and rounded once.
template <int N, typename T>
__device__ inline void write(T* destination, const float (&values)[N], bool accumulate) {
  Vector<T, N> result;
  if (accumulate) {
    Vector<T, N> before = load<N>(destination);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      result.at[i] = round_to<T>(to_float(before.at[i]) + values[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      result.at[i] = round_to<T>(values[i]);
    }
  }
  store<N>(destination, result);
}

// Elements of a 16-byte vector.
template <typename T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

// The sum over the block, in every thread. `shared` holds 32 floats; it may be used again after the next
// barrier. The order depends on the block's size alone.
__device__ inline float block_sum(float value, float* shared) {
  value = warp_sum(value);
  int lane = static_cast<int>(threadIdx.x) % 32;
  int warp = static_cast<int>(threadIdx.x) / 32;
  int warps = (static_cast<int>(blockDim.x) + 31) / 32;
  if (lane == 0) {
    shared[warp] = value;
  }
  __syncthreads();
  return warp_sum(lane < warps ? shared[lane] : 0.0F);
}

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls body(TypeTag<T>) with the device's type for fp32, bf16 or fp16.
template <typename Body>
void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(TypeTag<float>{});
    case DType::bf16:
      return body(TypeTag<__nv_bfloat16>{});
    case DType::f16:
      return body(TypeTag<__half>{});
    default:
      SNUG_CHECK(false, "a cuda kernel was given a dtype that find_unsupported refuses");
  }
}

// Weights are stored as the activations are, or in fp32.
template <typename T, typename Body>
void with_weight_type(DType dtype, const Body& body) {
  if (dtype == DType::f32) {
    return body(TypeTag<float>{});
  }
  body(TypeTag<T>{});
}

template <int N>
struct Width {
  static constexpr int value = N;
};

// Calls body(Width<N>): full vectors where every row starts at a multiple of one, else single elements.
template <typename T, typename Body>
void with_width(int64_t columns, const Body& body) {
  if (columns % kVector<T> == 0) {
    return body(Width<kVector<T>>{});
  }
  body(Width<1>{});
}

// Whether rows of 2-byte numbers can be read and written 16 bytes at a time.
inline bool has_whole_vectors(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 && tensor.columns() % kVector<__half> == 0;
}

inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace snug::cuda
