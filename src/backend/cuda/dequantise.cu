// value = map[code] * scale, or code * scale / 127, rounded to the weight's dtype (base/code_formula.h). A
// block of threads works on one row, which lies in one part; a thread on vectors of it, or on elements where
// rows are no whole vectors, some at once so that memory has enough to do. fp32 math; writes =.
#include "backend/cuda/check.h"
#include "backend/cuda/codes.cuh"
#include "backend/cuda/dequantise.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kAtOnce = 4;  // vectors

// Calls read(k, column) for the thread's next kAtOnce vectors of the row, then write(k, column).
template <int N, typename Read, typename Write>
__device__ inline void for_columns(int64_t columns, const Read& read, const Write& write) {
  for (int64_t first = threadIdx.x * N; first < columns; first += kAtOnce * kThreads * N) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (int64_t column = first + k * kThreads * N; column < columns) {
        read(k, column);
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (int64_t column = first + k * kThreads * N; column < columns) {
        write(k, column);
      }
    }
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    four_bit_kernel(const __grid_constant__ CodedWeight source, const __grid_constant__ CodeSlice slice,
                    T* __restrict__ values) {
  __shared__ float map[16];
  int64_t row = slice.row + blockIdx.x;
  CodedPart part = part_at(source.layout, row);
  if (threadIdx.x < 16) {
    map[threadIdx.x] = floats_at(source.weight, part.map)[threadIdx.x];
  }
  __syncthreads();
  // Where there are vectors, they begin at multiples of their size, and none reaches into another block.
  int64_t begin = (row - part.row_begin) * source.layout.columns + slice.column;
  const std::byte* codes = source.weight + part.codes;
  T* target = values + blockIdx.x * slice.columns;
  CodeWord<N> words[kAtOnce];
  float scales[kAtOnce];
  for_columns<N>(
      slice.columns,
      [&](int k, int64_t column) {
        words[k] = __ldg(reinterpret_cast<const CodeWord<N>*>(codes + (begin + column) / 2));
        scales[k] = scale_at(source, part, (begin + column) >> source.block_bits);
      },
      [&](int k, int64_t column) {
        float out[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
          out[i] = map[code_in<N>(words[k], begin + column, i)] * scales[k];
        }
        write<N>(target + column, out, false);
      });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    eight_bit_kernel(const __grid_constant__ CodedWeight source, const __grid_constant__ CodeSlice slice,
                     T* __restrict__ values) {
  int64_t row = slice.row + blockIdx.x;
  CodedPart part = part_at(source.layout, row);
  int64_t row_of_part = row - part.row_begin;
  float scale = scale_at(source, part, row_of_part);
  const auto* codes = reinterpret_cast<const int8_t*>(source.weight + part.codes) +
                      row_of_part * source.layout.columns + slice.column;
  T* target = values + blockIdx.x * slice.columns;
  Vector<int8_t, N> vectors[kAtOnce];
  for_columns<N>(
      slice.columns, [&](int k, int64_t column) { vectors[k] = load<N>(codes + column); },
      [&](int k, int64_t column) {
        float out[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
          out[i] = int8_value(vectors[k].at[i], scale);
        }
        write<N>(target + column, out, false);
      });
}

}  // namespace

void dequantise(cudaStream_t stream, const CodeLayout& layout, const std::byte* weight,
                const CodeSlice& slice, void* values) {
  CodedWeight source = coded_weight(layout, weight);
  bool is_int8 = layout.format.coding == Coding::int8;
  with_type(layout.format.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int kWide = kVector<T>;
    bool wide = layout.columns % kWide == 0 && slice.column % kWide == 0 && slice.columns % kWide == 0 &&
                (is_int8 || layout.format.block % kWide == 0);
    auto launch = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      auto grid = static_cast<unsigned>(slice.rows);
      if (is_int8) {
        eight_bit_kernel<T, kWidth><<<grid, kThreads, 0, stream>>>(source, slice, static_cast<T*>(values));
      } else {
        four_bit_kernel<T, kWidth><<<grid, kThreads, 0, stream>>>(source, slice, static_cast<T*>(values));
      }
    };
    if (wide) {
      launch(Width<kWide>{});
    } else {
      launch(Width<1>{});
    }
    check_launch("dequantising a weight");
  });
}

}  // namespace snug::cuda
