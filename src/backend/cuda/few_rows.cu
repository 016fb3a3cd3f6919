// y [R,out] = or += alpha * x [R,in] W^T (+ bias) for few rows R and a W of codes: each code is read once and
// its value, rounded to the weight's dtype as ever, is multiplied where it is. A warp makes kOutputs columns
// of y; a lane takes every 32nd run of N codes of their rows of W. fp32 sums, in one order.
#include "backend/cuda/check.h"
#include "backend/cuda/codes.cuh"
#include "backend/cuda/few_rows.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kOutputs = 2;  // a pair: they share what is read of x, and are rounded at once
constexpr int kRun = 32;     // codes that a lane takes at once: 16 bytes of 4 bits

template <typename T>
struct FewRows {
  CodedWeight weight;
  const T* x;
  T* y;
  const T* bias;  // may be null
  int64_t x_stride;
  int64_t y_stride;
  int64_t outputs;
  float alpha;
  bool accumulate;
};

// As a buffer of type T would hold them. Two at a time, which the card converts several times as fast as one.
__device__ inline void round_pair(float (&)[2], TypeTag<float>) {}
__device__ inline void round_pair(float (&pair)[2], TypeTag<__nv_bfloat16>) {
  float2 rounded = __bfloat1622float2(__floats2bfloat162_rn(pair[0], pair[1]));
  pair[0] = rounded.x;
  pair[1] = rounded.y;
}
__device__ inline void round_pair(float (&pair)[2], TypeTag<__half>) {
  float2 rounded = __half22float2(__floats2half2_rn(pair[0], pair[1]));
  pair[0] = rounded.x;
  pair[1] = rounded.y;
}

// A run of N codes of one row of W, all of one scale, in words of 4 bytes; one code in a word of its own.
template <int N, bool kEightBits>
struct CodeRun {
  static constexpr int kWords = N == 1 ? 1 : N * (kEightBits ? 8 : 4) / 32;
  uint32_t words[kWords];
  float scale;

  __device__ void read(const CodedWeight& weight, const CodedPart& part, int64_t row, int64_t element) {
    const std::byte* codes = weight.weight + part.codes + (kEightBits ? element : element / 2);
    if constexpr (N == 1) {
      auto byte = static_cast<uint32_t>(*codes);
      words[0] = kEightBits || element % 2 != 0 ? byte : byte >> 4;
    } else {
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        uint4 four = __ldg(reinterpret_cast<const uint4*>(codes) + i / 4);
        words[i] = four.x;
        words[i + 1] = four.y;
        words[i + 2] = four.z;
        words[i + 3] = four.w;
      }
    }
    scale = scale_at(weight, part, kEightBits ? row : element >> weight.block_bits);
  }

  // Of element i of the run, before it is rounded.
  __device__ float value(int i, const float* map) const {
    if constexpr (kEightBits) {
      return int8_value(static_cast<int8_t>(words[i / 4] >> 8 * (i % 4)), scale);
    } else {
      // The place in the map, in bytes: four times the code, whose earlier one is the high half of a byte.
      int low_bit = N == 1 ? 0 : 8 * (i % 8 / 2) + (i % 2 == 0 ? 4 : 0);
      uint32_t word = words[i / 8];
      uint32_t place = (low_bit >= 2 ? word >> (low_bit - 2) : word << 2) & 0x3cU;
      return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(map) + place) * scale;
    }
  }
};

template <typename T, int N, int kRows, bool kEightBits>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(const __grid_constant__ FewRows<T> a) {
  __shared__ float maps[kWarps][kOutputs][16];
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int64_t first_output = (static_cast<int64_t>(blockIdx.x) * kWarps + warp) * kOutputs;
  if (first_output >= a.outputs) {
    return;
  }
  CodedPart parts[kOutputs];
  int64_t rows[kOutputs];  // within their parts
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    int64_t output = first_output + o < a.outputs ? first_output + o : first_output;  // one too many: again
    parts[o] = part_at(a.weight.layout, output);
    rows[o] = output - parts[o].row_begin;
    if (!kEightBits && lane < 16) {
      maps[warp][o][lane] = floats_at(a.weight.weight, parts[o].map)[lane];
    }
  }
  __syncwarp();
  int64_t columns = a.weight.layout.columns;
  float sums[kOutputs][kRows] = {};
  for (int64_t column = lane * N; column < columns; column += 32 * N) {
    CodeRun<N, kEightBits> runs[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      runs[o].read(a.weight, parts[o], rows[o], rows[o] * columns + column);
    }
    constexpr int kStep = N < kVector<T> ? N : kVector<T>;
#pragma unroll
    for (int step = 0; step < N; step += kStep) {
      float values[kStep][kOutputs];
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          values[i][o] = runs[o].value(step + i, maps[warp][o]);
        }
        round_pair(values[i], TypeTag<T>{});
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        Vector<T, kStep> x = load<kStep>(a.x + r * a.x_stride + column + step);
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          float factor = to_float(x.at[i]);
#pragma unroll
          for (int o = 0; o < kOutputs; ++o) {
            sums[o][r] = fmaf(values[i][o], factor, sums[o][r]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    int64_t output = first_output + o;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float sum = a.alpha * warp_sum(sums[o][r]);
      if (lane == 0 && output < a.outputs) {
        float result[1] = {a.bias == nullptr ? sum : sum + to_float(a.bias[output])};
        write<1>(a.y + r * a.y_stride + output, result, a.accumulate);
      }
    }
  }
}

template <typename T, int N, bool kEightBits>
void launch(cudaStream_t stream, const FewRows<T>& a, int64_t rows) {
  unsigned grid = blocks_for(a.outputs, kWarps * kOutputs);
  auto run = [&](auto count, int64_t first) {
    FewRows<T> part = a;
    part.x += first * a.x_stride;
    part.y += first * a.y_stride;
    few_rows_kernel<T, N, decltype(count)::value, kEightBits><<<grid, kThreads, 0, stream>>>(part);
    check_launch("multiplying with codes");
  };
  // Four rows at a time, then one by one.
  int64_t done = 0;
  for (; rows - done >= 4; done += 4) {
    run(Width<4>{}, done);
  }
  for (; done < rows; ++done) {
    run(Width<1>{}, done);
  }
}

}  // namespace

void multiply_few_rows(cudaStream_t stream, const Gemm& product, const CodeLayout& layout,
                       const std::byte* weight) {
  with_type(layout.format.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    FewRows<T> a{coded_weight(layout, weight),
                 static_cast<const T*>(product.a.data),
                 static_cast<T*>(product.c.data),
                 static_cast<const T*>(product.bias),
                 product.a.stride,
                 product.c.stride,
                 product.c.columns,
                 product.alpha,
                 product.accumulate};
    bool is_int8 = layout.format.coding == Coding::int8;
    auto with_run = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      if (is_int8) {
        launch<T, kWidth, true>(stream, a, product.a.rows);
      } else {
        launch<T, kWidth, false>(stream, a, product.a.rows);
      }
    };
    if (layout.columns % kRun == 0 && (is_int8 || layout.format.block % kRun == 0)) {
      with_run(Width<kRun>{});
    } else {
      with_run(Width<1>{});
    }
  });
}

}  // namespace snug::cuda
