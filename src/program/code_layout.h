// Where codes, scales and maps lie within a buffer whose format is a coding.
//
// Every tensor of the file (TensorPart) is coded on its own: blocks begin at its first element and run on
// across its rows, so that a tensor has the same codes in every buffer. In the buffer stand behind each
// other, for each part in turn and every piece at a multiple of kCodeAlignment bytes:
//
//   codes          4 bits an element, the earlier of two in the high half of their byte; or 8 bits an element
//   scales         fp32, one a block (int8, fp8: a row); nested: one byte a block
//   nested scales  fp32, one for kNestedBlock scales; and the fp32 that is added to all scales of the part
//   maps           fp32: the value of each code; nested: the value of each code of a scale
//
// Moments in 8 bits (dynamic codings) follow the tensors of their parameter in the same way. A part of fewer
// than kSmallestDynamicTensor elements has fp32 values in place of codes and no scales.
#pragma once

#include <array>
#include <cstdint>

#include "program/buffer.h"

namespace snug {

inline constexpr int64_t kCodeAlignment = 16;
inline constexpr int kMaxCodedParts = 4;

// Places are bytes from the buffer's start.
struct CodedPart {
  int64_t row_begin = 0;
  int64_t rows = 0;
  bool plain = false;  // fp32 values stand where codes would
  int64_t codes = 0;
  int64_t scales = 0;
  int64_t nested_scales = 0;
  int64_t offset = 0;
  int64_t map = 0;
  int64_t nested_map = 0;
};

// Plain data, so that a kernel on a card can take it along.
struct CodeLayout {
  Format format;
  int64_t columns = 0;
  int part_count = 0;
  std::array<CodedPart, kMaxCodedParts> parts{};
  int64_t code_bytes = 0;   // plain parts included
  int64_t scale_bytes = 0;  // nested ones and offsets included
  int64_t map_bytes = 0;

  int64_t bytes() const { return code_bytes + scale_bytes + map_bytes; }
};

// Scales of so many rows of one tensor.
constexpr int64_t scale_count(const Format& format, int64_t rows, int64_t columns) {
  return format.block == 0 ? rows : (rows * columns + format.block - 1) / format.block;
}
constexpr int64_t nested_scale_count(int64_t scales) {
  return (scales + kNestedBlock - 1) / kNestedBlock;
}

// Of a buffer whose format is a coding; one without parts is one tensor.
CodeLayout code_layout(const Buffer& buffer);

}  // namespace snug
