// code = the level nearest to value / largest magnitude of its block, or value / largest magnitude of its row
// in 127 steps (base/code_formula.h). Values are read where the host wrote them, over the bus, which takes
// longer than all that is done with them. fp32 math; writes =.
#include "backend/cuda/check.h"
#include "backend/cuda/float8.h"
#include "backend/cuda/quantise.h"
#include "backend/cuda/vectors.cuh"
#include "base/code_formula.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 8;  // values, of which a block has a whole number

// The largest of all lanes whose numbers differ in the low bits only.
__device__ inline float largest_of(float value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

template <typename T>
__device__ inline void read_values(const T* values, int64_t first, int64_t count, float (&out)[kPerThread]) {
  if (first + kPerThread <= count) {
#pragma unroll
    for (int part = 0; part < kPerThread; part += kVector<T>) {
      Vector<T, kVector<T>> vector = load<kVector<T>>(values + first + part);
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) {
        out[part + i] = to_float(vector.at[i]);
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    out[i] = first + i < count ? to_float(values[first + i]) : 0.0F;
  }
}

// A thread makes the codes of kPerThread values, the threads of a block share their largest.
template <typename T>
__global__ void four_bit_kernel(CodePiece piece, const __grid_constant__ CodeLevels levels) {
  int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPerThread;
  float values[kPerThread];
  read_values(static_cast<const T*>(piece.values), first, piece.count, values);
  float largest = 0;
#pragma unroll
  for (float value : values) {
    largest = fmaxf(largest, fabsf(value));
  }
  largest = largest_of(largest, piece.format.block / kPerThread);
  if (first >= piece.count) {
    return;
  }
  int64_t block = first / piece.format.block;
  bool is_whole = (block + 1) * piece.format.block <= piece.count;
  float scale = is_whole ? largest : fmaxf(largest, kSmallestScale);
  float factor = scale_factor(largest);
  uint8_t codes[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    codes[i] = code_of(levels, is_whole ? values[i] * factor : values[i] / scale);
  }
  auto* packed = reinterpret_cast<uint8_t*>(piece.codes) + first / 2;
  Vector<uint8_t, kPerThread / 2> bytes;
#pragma unroll
  for (int i = 0; i < kPerThread / 2; ++i) {
    bytes.at[i] = static_cast<uint8_t>(codes[2 * i] << 4 | codes[2 * i + 1]);
  }
  if (first + kPerThread <= piece.count) {
    store<kPerThread / 2>(packed, bytes);
  } else {
    for (int i = 0; first + 2 * i < piece.count; ++i) {
      packed[i] = bytes.at[i];
    }
  }
  if (first % piece.format.block == 0) {
    piece.scales[block] = scale;
  }
}

// A block of threads makes the codes of a row, in two passes over it, N values at a time.
template <typename T, int N>
__global__ void eight_bit_kernel(CodePiece piece) {
  __shared__ float shared[kThreads / 32];
  const T* values = static_cast<const T*>(piece.values) + blockIdx.x * piece.columns;
  auto at_half = [](T value) { return __half2float(__float2half_rn(to_float(value))); };
  float largest = 0;
  for (int64_t i = threadIdx.x * N; i < piece.columns; i += kThreads * N) {
    Vector<T, N> vector = load<N>(values + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      largest = fmaxf(largest, fabsf(at_half(vector.at[k])));
    }
  }
  largest = largest_of(largest, 32);
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = largest;
  }
  __syncthreads();
  largest = largest_of(shared[threadIdx.x % (kThreads / 32)], 32);
  auto* codes = reinterpret_cast<int8_t*>(piece.codes) + blockIdx.x * piece.columns;
  for (int64_t i = threadIdx.x * N; i < piece.columns; i += kThreads * N) {
    Vector<T, N> vector = load<N>(values + i);
    Vector<int8_t, N> made;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      made.at[k] = int8_code(at_half(vector.at[k]), largest);
    }
    store<N>(codes + i, made);
  }
  if (threadIdx.x == 0) {
    piece.scales[blockIdx.x] = largest;
  }
}

}  // namespace

void quantise(cudaStream_t stream, const CodePiece& piece) {
  if (piece.count == 0) {
    return;
  }
  if (piece.format.coding == Coding::fp8) {
    Matrix values{const_cast<void*>(piece.values), piece.format.dtype, piece.units(), piece.columns,
                  piece.columns};
    cast_rows(stream, values, {.codes = reinterpret_cast<uint8_t*>(piece.codes), .scales = piece.scales});
    return;
  }
  with_type(piece.format.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (piece.format.coding == Coding::int8) {
      with_width<T>(piece.columns, [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        eight_bit_kernel<T, kWidth><<<static_cast<unsigned>(piece.units()), kThreads, 0, stream>>>(piece);
      });
    } else {
      int lanes = piece.format.block / kPerThread;
      SNUG_CHECK(piece.format.block % kPerThread == 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0,
                 "a warp makes whole blocks of codes");
      four_bit_kernel<T><<<blocks_for(piece.count, kThreads * kPerThread), kThreads, 0, stream>>>(
          piece, levels_of(piece.format.coding));
    }
    check_launch("quantising a weight");
  });
}

}  // namespace snug::cuda
