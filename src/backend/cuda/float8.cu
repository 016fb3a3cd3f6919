// code = nearest(x * column scale / row scale), the row's scale from its largest magnitude (base/float8.h):
// one block a row, which is held in registers between the two, or read twice where it is too long. And bytes
// transposed in tiles. Products sum in fp32.
#include <cuda_fp8.h>

#include "backend/cuda/check.h"
#include "backend/cuda/float8.h"
#include "backend/cuda/vectors.cuh"
#include "backend/cuda_plan/float8_scratch.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kTogether = 8;  // values

using Values = Vector<float, kTogether>;

template <typename T>
__device__ inline Vector<T, kTogether> read(const T* row, int64_t column, int64_t columns) {
  return column < columns ? load<kTogether>(row + column) : Vector<T, kTogether>{};
}

template <bool kScaled, typename T>
__device__ inline Values scaled(const Vector<T, kTogether>& raw, const float* column_scales, int64_t column,
                                int64_t columns) {
  Values values;
  Values by;
  if constexpr (kScaled) {
    by = read(column_scales, column, columns);
  }
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    values.at[i] = kScaled ? to_float(raw.at[i]) * by.at[i] : to_float(raw.at[i]);
  }
  return values;
}

__device__ inline float largest_in(const Values& values, float largest) {
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    largest = fmaxf(largest, fabsf(values.at[i]));
  }
  return largest;
}

__device__ inline float largest_of_block(float largest) {
  __shared__ float shared[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, offset));
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = largest;
  }
  __syncthreads();
  largest = shared[threadIdx.x % kWarps];
  for (int offset = kWarps / 2; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, offset));
  }
  return largest;
}

template <Float8 kKind>
__device__ inline void store_codes(const Values& values, float factor, uint8_t* codes) {
  constexpr __nv_fp8_interpretation_t kFormat = kKind == Float8::e4m3 ? __NV_E4M3 : __NV_E5M2;
  Vector<__nv_fp8x2_storage_t, kTogether / 2> made;
#pragma unroll
  for (int i = 0; i < kTogether / 2; ++i) {
    float2 pair = {values.at[2 * i] * factor, values.at[2 * i + 1] * factor};
    made.at[i] = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, kFormat);
  }
  store<kTogether / 2>(reinterpret_cast<__nv_fp8x2_storage_t*>(codes), made);
}

// kHeld vectors a thread are the row; 0: any number, read twice. kScaled goes with gradients.
template <typename T, Float8 kKind, bool kScaled, int kHeld>
__global__ void __launch_bounds__(kThreads)
    cast_kernel(const T* __restrict__ x, int64_t columns, Float8Rows rows) {
  const T* row = x + blockIdx.x * columns;
  uint8_t* codes = rows.codes + blockIdx.x * columns;
  auto column_of = [](int k) { return (static_cast<int64_t>(k) * kThreads + threadIdx.x) * kTogether; };
  float largest = 0;
  Vector<T, kTogether> held[kHeld > 0 ? kHeld : 1];
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      held[k] = read(row, column_of(k), columns);
    }
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      largest = largest_in(scaled<kScaled>(held[k], rows.column_scales, column_of(k), columns), largest);
    }
  } else {
    for (int k = 0; column_of(k) < columns; ++k) {
      auto raw = load<kTogether>(row + column_of(k));
      largest = largest_in(scaled<kScaled>(raw, rows.column_scales, column_of(k), columns), largest);
    }
  }
  float scale = float8_scale(kKind, largest_of_block(largest));
  float factor = 1.0F / scale;
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (int64_t column = column_of(k); column < columns) {
        store_codes<kKind>(scaled<kScaled>(held[k], rows.column_scales, column, columns), factor,
                           codes + column);
      }
    }
  } else {
    for (int k = 0; column_of(k) < columns; ++k) {
      int64_t column = column_of(k);
      auto raw = load<kTogether>(row + column);
      store_codes<kKind>(scaled<kScaled>(raw, rows.column_scales, column, columns), factor, codes + column);
    }
  }
  if (threadIdx.x == 0) {
    rows.scales[blockIdx.x] = scale;
  }
}

template <typename T, Float8 kKind, bool kScaled>
void launch_cast(cudaStream_t stream, const Matrix& x, const Float8Rows& rows) {
  auto launch = [&](auto held) {
    constexpr int kHeld = decltype(held)::value;
    cast_kernel<T, kKind, kScaled, kHeld><<<static_cast<unsigned>(x.rows), kThreads, 0, stream>>>(
        static_cast<const T*>(x.data), x.columns, rows);
  };
  int64_t vectors = (x.columns + kThreads * kTogether - 1) / (kThreads * kTogether);
  if (vectors <= 1) {
    launch(Width<1>{});
  } else if (vectors <= 2) {
    launch(Width<2>{});
  } else if (vectors <= 5) {
    launch(Width<5>{});
  } else if (vectors <= 10 && sizeof(T) == 2) {
    launch(Width<10>{});
  } else {
    launch(Width<0>{});
  }
  check_launch("casting to 8 bits");
}

constexpr int kTile = 128;
constexpr int kTileThreads = 256;
constexpr int kWordsAcross = kTile / 4;

// Four rows of four bytes to four columns of them.
__device__ inline void transpose_words(const uint32_t (&in)[4], uint32_t (&out)[4]) {
  uint32_t low = __byte_perm(in[0], in[1], 0x5140);
  uint32_t low2 = __byte_perm(in[2], in[3], 0x5140);
  uint32_t high = __byte_perm(in[0], in[1], 0x7362);
  uint32_t high2 = __byte_perm(in[2], in[3], 0x7362);
  out[0] = __byte_perm(low, low2, 0x5410);
  out[1] = __byte_perm(low, low2, 0x7632);
  out[2] = __byte_perm(high, high2, 0x5410);
  out[3] = __byte_perm(high, high2, 0x7632);
}

// out [count,rows] = columns [begin, begin + count) of in [rows,stride], and ones [count] = 1. Rows and
// columns are multiples of 16. Within shared memory the words of 16 rows are turned by four places against
// those before them, so that the eight threads that read downwards meet different banks.
__global__ void __launch_bounds__(kTileThreads)
    transpose_kernel(const uint8_t* __restrict__ in, int64_t rows, int64_t stride, int64_t count,
                     uint8_t* __restrict__ out, float* __restrict__ ones) {
  alignas(16) __shared__ uint32_t tile[kTile][kWordsAcross];
  int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile;
  int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    auto index = static_cast<int>(threadIdx.x) + i * kTileThreads;
    int row = index / 8;
    int vector = index % 8;
    if (first_row + row < rows && first_column + vector * 16 < count) {
      *reinterpret_cast<uint4*>(&tile[row][(4 * vector + 4 * (row / 16)) % kWordsAcross]) =
          *reinterpret_cast<const uint4*>(in + (first_row + row) * stride + first_column + vector * 16);
    }
  }
  if (blockIdx.y == 0 && threadIdx.x < kTile && first_column + threadIdx.x < count) {
    ones[first_column + threadIdx.x] = 1.0F;
  }
  __syncthreads();
  auto group = static_cast<int>(threadIdx.x % 8);  // 16 rows
  auto word = static_cast<int>(threadIdx.x / 8);   // 4 columns
  if (first_row + group * 16 >= rows || first_column + word * 4 >= count) {
    return;
  }
  uint32_t turned[4][4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    uint32_t taken[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      taken[i] = tile[group * 16 + k * 4 + i][(word + 4 * group) % kWordsAcross];
    }
    transpose_words(taken, turned[k]);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    *reinterpret_cast<uint4*>(out + (first_column + word * 4 + j) * rows + first_row + group * 16) =
        uint4{turned[0][j], turned[1][j], turned[2][j], turned[3][j]};
  }
}

Matrix codes_of(uint8_t* codes, int64_t rows, int64_t columns) {
  return {codes, DType::u8, rows, columns, columns};
}

}  // namespace

void cast_rows(cudaStream_t stream, const Matrix& x, const Float8Rows& rows) {
  SNUG_CHECK(x.columns % kTogether == 0 && x.stride == x.columns, "rows of 8 bits are whole vectors");
  if (x.rows == 0) {
    return;
  }
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (rows.kind == Float8::e4m3) {
      SNUG_CHECK(rows.column_scales == nullptr, "scales of columns go with gradients");
      launch_cast<T, Float8::e4m3, false>(stream, x, rows);
    } else {
      launch_cast<T, Float8::e5m2, true>(stream, x, rows);
    }
  });
}

void run_float8(const Queue& queue, Gemm product, const CodeLayout& layout, const Tensor& weight,
                std::span<std::byte> workspace) {
  bool is_forward = product.transpose_b;
  int64_t out = weight.rows();
  int64_t in = weight.columns();
  Float8Scratch sizes(product.a.rows, out, in, is_forward);
  Scratch scratch(workspace);
  auto* codes = scratch.take<uint8_t>(sizes.rows * sizes.inner);
  auto* scales = scratch.take<float>(sizes.rows);
  // Parts lie one behind the other, their rows being multiples of 16.
  auto* weight_codes = weight.as<uint8_t>() + layout.parts[0].codes;
  const auto* weight_scales = reinterpret_cast<const float*>(weight.as<std::byte>() + layout.parts[0].scales);
  Float8 kind = is_forward ? Float8::e4m3 : Float8::e5m2;
  cast_rows(queue.stream, product.a, {kind, is_forward ? nullptr : weight_scales, codes, scales});
  product.a = codes_of(codes, sizes.rows, sizes.inner);
  product.a_scales = scales;
  product.a_kind = kind;
  if (is_forward) {
    product.b = codes_of(weight_codes, out, in);
    product.b_scales = weight_scales;
    run_with_row_scales(queue, product, scratch.rest());
    return;
  }
  auto* turned = scratch.take<uint8_t>(sizes.slice * out);
  auto* ones = scratch.take<float>(sizes.slice);
  Matrix c = product.c;
  product.transpose_b = true;
  product.b_scales = ones;
  for (int64_t begin = 0; begin < in; begin += sizes.slice) {
    int64_t now = std::min(sizes.slice, in - begin);
    dim3 tiles(static_cast<unsigned>((now + kTile - 1) / kTile),
               static_cast<unsigned>((out + kTile - 1) / kTile));
    transpose_kernel<<<tiles, kTileThreads, 0, queue.stream>>>(weight_codes + begin, out, in, now, turned,
                                                               ones);
    check_launch("transposing a weight");
    product.b = codes_of(turned, now, out);
    product.c = c.column_block(begin, now);
    run_with_row_scales(queue, product, scratch.rest());
  }
}

}  // namespace snug::cuda
