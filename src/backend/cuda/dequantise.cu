// value = map[code] * scale, or code * scale / 127, rounded to the weight's dtype (backend/code_formula.h). A
// block of threads works on one row, which lies in one part; a thread on one vector of it, or on one element
// where rows are no whole vectors. fp32 math; writes =.
#include "backend/code_formula.h"
#include "backend/cuda/check.h"
#include "backend/cuda/dequantise.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 128;

// What a thread needs of the layout, by value.
struct Source {
  CodeLayout layout;
  const std::byte* weight;
  CodeSlice slice;
};

__device__ inline CodedPart part_at(const CodeLayout& layout, int64_t row) {
  CodedPart part = layout.parts[0];
  for (int i = 1; i < layout.part_count; ++i) {
    if (row >= layout.parts[static_cast<size_t>(i)].row_begin) {
      part = layout.parts[static_cast<size_t>(i)];
    }
  }
  return part;
}

__device__ inline const float* floats_at(const std::byte* weight, int64_t place) {
  return reinterpret_cast<const float*>(weight + place);
}

__device__ inline float scale_at(const Source& source, const CodedPart& part, int64_t index) {
  if (!source.layout.format.nested) {
    return floats_at(source.weight, part.scales)[index];
  }
  auto code = static_cast<int>(source.weight[part.scales + index]);
  return nested_value(floats_at(source.weight, part.nested_map)[code],
                      floats_at(source.weight, part.nested_scales)[index / kNestedBlock],
                      *floats_at(source.weight, part.offset));
}

// The code of element i of a part, of 4 bits.
__device__ inline int code_at(const std::byte* codes, int64_t i) {
  int byte = static_cast<int>(codes[i / 2]);
  return i % 2 == 0 ? byte >> 4 : byte & 0xf;
}

template <typename T, int N>
__global__ void four_bit_kernel(Source source, T* values) {
  __shared__ float map[16];
  int64_t row = source.slice.row + blockIdx.x;
  CodedPart part = part_at(source.layout, row);
  if (threadIdx.x < 16) {
    map[threadIdx.x] = floats_at(source.weight, part.map)[threadIdx.x];
  }
  __syncthreads();
  int64_t column = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * N;
  if (column >= source.slice.columns) {
    return;
  }
  // Where there are vectors, they begin at multiples of their size, and none reaches into another block.
  int64_t element = (row - part.row_begin) * source.layout.columns + source.slice.column + column;
  float scale = scale_at(source, part, element / source.layout.format.block);
  const std::byte* codes = source.weight + part.codes;
  float out[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    out[i] = map[code_at(codes, element + i)] * scale;
  }
  write<N>(values + static_cast<int64_t>(blockIdx.x) * source.slice.columns + column, out, false);
}

template <typename T, int N>
__global__ void eight_bit_kernel(Source source, T* values) {
  int64_t row = source.slice.row + blockIdx.x;
  CodedPart part = part_at(source.layout, row);
  int64_t column = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * N;
  if (column >= source.slice.columns) {
    return;
  }
  int64_t row_of_part = row - part.row_begin;
  float scale = scale_at(source, part, row_of_part);
  const auto* codes = reinterpret_cast<const int8_t*>(source.weight + part.codes) +
                      row_of_part * source.layout.columns + source.slice.column + column;
  float out[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    out[i] = int8_value(codes[i], scale);
  }
  write<N>(values + static_cast<int64_t>(blockIdx.x) * source.slice.columns + column, out, false);
}

}  // namespace

void dequantise(cudaStream_t stream, const CodeLayout& layout, const std::byte* weight,
                const CodeSlice& slice, void* values) {
  Source source{layout, weight, slice};
  bool is_int8 = layout.format.coding == Coding::int8;
  with_type(layout.format.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int kWide = kVector<T>;
    bool wide = layout.columns % kWide == 0 && slice.column % kWide == 0 && slice.columns % kWide == 0 &&
                (is_int8 || layout.format.block % kWide == 0);
    auto launch = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      dim3 grid(static_cast<unsigned>(slice.rows), blocks_for(slice.columns, kThreads * kWidth));
      if (is_int8) {
        eight_bit_kernel<T, kWidth><<<grid, kThreads, 0, stream>>>(source, static_cast<T*>(values));
      } else {
        four_bit_kernel<T, kWidth><<<grid, kThreads, 0, stream>>>(source, static_cast<T*>(values));
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
