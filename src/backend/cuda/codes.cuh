// What kernels that read weights of codes share: where a row's codes and scales are, and what they stand for.
#pragma once

#include <bit>
#include <type_traits>

#include "backend/cuda/vectors.cuh"
#include "base/code_formula.h"
#include "program/code_layout.h"

namespace snug::cuda {

// What a thread needs of the layout, by value.
struct CodedWeight {
  CodeLayout layout;
  const std::byte* weight;
  int block_bits;  // a block has 2^block_bits elements
};

inline CodedWeight coded_weight(const CodeLayout& layout, const std::byte* weight) {
  bool has_blocks = layout.format.block > 0;
  auto block = static_cast<uint32_t>(layout.format.block);
  SNUG_CHECK(!has_blocks || std::has_single_bit(block), "blocks of codes have a power of two of elements");
  return {layout, weight, has_blocks ? std::countr_zero(block) : 0};
}

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

__device__ inline float scale_at(const CodedWeight& source, const CodedPart& part, int64_t index) {
  if (!source.layout.format.nested) {
    return floats_at(source.weight, part.scales)[index];
  }
  auto code = static_cast<int>(source.weight[part.scales + index]);
  return nested_value(floats_at(source.weight, part.nested_map)[code],
                      floats_at(source.weight, part.nested_scales)[index / kNestedBlock],
                      *floats_at(source.weight, part.offset));
}

// The bytes of N codes of 4 bits; of one code, the byte that it shares.
template <int N>
using CodeWord = std::conditional_t<N == 8, uint32_t, std::conditional_t<N == 4, uint16_t, uint8_t>>;

// Code i of the word that holds the elements from `first` on.
template <int N>
__device__ inline int code_in(CodeWord<N> word, int64_t first, int i) {
  int byte = N == 1 ? word : word >> 8 * (i / 2);
  return (N == 1 ? first : i) % 2 == 0 ? byte >> 4 & 0xf : byte & 0xf;
}

}  // namespace snug::cuda
