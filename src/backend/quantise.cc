// Loops over blocks and rows.
#include "backend/quantise.h"

#include <algorithm>
#include <cstring>

#include "backend/scale_mean.h"
#include "base/check.h"
#include "base/float8.h"
#include "base/threads.h"

namespace snug {
namespace {

float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (float value : values) {
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

// Codes of a block, one a byte.
void code_block(const CodeLevels& levels, std::span<const float> values, float factor, uint8_t* codes) {
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = code_of(levels, values[i] * factor);
  }
}

void code_last_block(const CodeLevels& levels, std::span<const float> values, float scale, uint8_t* codes) {
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = code_of(levels, values[i] / scale);
  }
}

float value_at(const std::byte* base, int64_t place, int64_t index) {
  float value = 0;
  std::memcpy(&value, base + place + index * size_of(DType::f32), sizeof value);
  return value;
}

float rounded(float value, DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return to_float(to_bf16(value));
    case DType::f16:
      return to_float(to_f16(value));
    default:
      return value;
  }
}

const CodedPart& part_at(const CodeLayout& layout, int64_t row) {
  auto used = std::span(layout.parts).first(static_cast<size_t>(layout.part_count));
  auto behind =
      std::find_if(used.begin(), used.end(), [&](const CodedPart& part) { return part.row_begin > row; });
  return *(behind - 1);
}

float scale_at(const CodeLayout& layout, const CodedPart& part, const std::byte* weight, int64_t index) {
  if (!layout.format.nested) {
    return value_at(weight, part.scales, index);
  }
  auto code = static_cast<int64_t>(weight[part.scales + index]);
  return nested_value(value_at(weight, part.nested_map, code),
                      value_at(weight, part.nested_scales, index / kNestedBlock),
                      value_at(weight, part.offset, 0));
}

void dequantise_row(const CodeLayout& layout, const std::byte* weight, const RowPiece& piece, float* values) {
  const CodedPart& part = part_at(layout, piece.row);
  int64_t row = piece.row - part.row_begin;
  const auto* codes =
      reinterpret_cast<const uint8_t*>(weight + part.codes) + row * layout.columns + piece.column;
  float scale = scale_at(layout, part, weight, row);
  if (layout.format.coding == Coding::fp8) {
    for (int64_t i = 0; i < piece.count; ++i) {
      values[i] = kE4m3Values[codes[i]] * scale;
    }
    return;
  }
  for (int64_t i = 0; i < piece.count; ++i) {
    values[i] = rounded(int8_value(static_cast<int8_t>(codes[i]), scale), layout.format.dtype);
  }
}

}  // namespace

void quantise_blocks(Coding coding, int64_t block, std::span<const float> values, uint8_t* codes,
                     float* scales) {
  constexpr int64_t kLargestBlock = 4096;
  SNUG_CHECK(block > 0 && block % 2 == 0 && block <= kLargestBlock, "no block of 4-bit codes");
  const CodeLevels& levels = levels_of(coding);
  std::array<uint8_t, kLargestBlock> wide;
  auto count = std::ssize(values);
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t size = std::min(block, count - begin);
    auto part = values.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
    float& scale = scales[begin / block];
    scale = largest_magnitude(part);
    if (size == block) {
      code_block(levels, part, scale_factor(scale), wide.data());
    } else {
      scale = std::max(scale, kSmallestScale);
      code_last_block(levels, part, scale, wide.data());
      wide[static_cast<size_t>(size)] = code_of(levels, 0);
    }
    uint8_t* packed = codes + begin / 2;
    for (int64_t i = 0; i < size; i += 2) {
      packed[i / 2] =
          static_cast<uint8_t>(wide[static_cast<size_t>(i)] << 4 | wide[static_cast<size_t>(i + 1)]);
    }
  }
}

float largest_of_row_piece(Coding coding, std::span<const float> values) {
  if (coding == Coding::fp8) {
    return largest_magnitude(values);
  }
  float largest = 0;
  for (float value : values) {
    largest = std::max(largest, std::fabs(to_float(to_f16(value))));
  }
  return largest;
}

float scale_of_row(Coding coding, float largest) {
  return coding == Coding::fp8 ? float8_scale(Float8::e4m3, largest) : largest;
}

void quantise_row_piece(Coding coding, std::span<const float> values, float scale, uint8_t* codes) {
  if (coding == Coding::fp8) {
    float factor = 1.0F / scale;
    for (size_t i = 0; i < values.size(); ++i) {
      codes[i] = float8_code(Float8::e4m3, values[i] * factor);
    }
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = static_cast<uint8_t>(int8_code(to_float(to_f16(values[i])), scale));
  }
}

void quantise_rows(Coding coding, int64_t columns, std::span<const float> values, uint8_t* codes,
                   float* scales) {
  for (int64_t i = 0; i < std::ssize(values) / columns; ++i) {
    auto row = values.subspan(static_cast<size_t>(i * columns), static_cast<size_t>(columns));
    scales[i] = scale_of_row(coding, largest_of_row_piece(coding, row));
    quantise_row_piece(coding, row, scales[i], codes + i * columns);
  }
}

float nest_scales(const NestedMap& map, std::span<float> scales, uint8_t* codes, float* nested_scales) {
  float offset = mean_of_scales(scales);
  for (float& scale : scales) {
    scale -= offset;
  }
  auto count = std::ssize(scales);
  parallel_for(nested_scale_count(count), 1, [&](int64_t first, int64_t last) {
    for (int64_t nested = first; nested < last; ++nested) {
      int64_t begin = nested * kNestedBlock;
      auto block = scales.subspan(static_cast<size_t>(begin),
                                  static_cast<size_t>(std::min(kNestedBlock, count - begin)));
      float largest = largest_magnitude(block);
      nested_scales[nested] = largest;
      float factor = 1.0F / largest;
      for (size_t i = 0; i < block.size(); ++i) {
        codes[begin + static_cast<int64_t>(i)] =
            largest == 0 ? uint8_t{0} : nested_code(map, block[i] * factor);
      }
    }
  });
  return offset;
}

void dequantise(const CodeLayout& layout, const std::byte* weight, const RowPiece& piece, float* values) {
  if (layout.format.block == 0) {
    dequantise_row(layout, weight, piece, values);
    return;
  }
  const CodedPart& part = part_at(layout, piece.row);
  const auto* codes = reinterpret_cast<const uint8_t*>(weight + part.codes);
  int64_t element = (piece.row - part.row_begin) * layout.columns + piece.column;
  int64_t end = element + piece.count;
  while (element < end) {
    int64_t block = element / layout.format.block;
    int64_t block_end = std::min(end, (block + 1) * layout.format.block);
    float scale = scale_at(layout, part, weight, block);
    std::array<float, 16> map;  // of this block
    for (int64_t code = 0; code < 16; ++code) {
      map[static_cast<size_t>(code)] = rounded(value_at(weight, part.map, code) * scale, layout.format.dtype);
    }
    for (; element < block_end; ++element) {
      int shift = element % 2 == 0 ? 4 : 0;
      *values++ = map[codes[element / 2] >> shift & 0xf];
    }
  }
}

}  // namespace snug
