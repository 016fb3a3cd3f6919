// Values to codes and back on the host, some blocks or rows of one tensor at a time (base/code_formula.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/code_formula.h"
#include "program/code_layout.h"

namespace snug {

// Whole blocks of `block` values, of which the last may be shorter if it ends the tensor. Of an odd number of
// codes the last byte's low half is the code of zero.
void quantise_blocks(Coding coding, int64_t block, std::span<const float> values, uint8_t* codes,
                     float* scales);

// Rows of `columns` values, whose scale follows from their largest magnitude; and a row in pieces, its
// largest magnitude being the largest of theirs. int8 goes through fp16, as bitsandbytes does.
float largest_of_row_piece(Coding coding, std::span<const float> values);
float scale_of_row(Coding coding, float largest);
void quantise_row_piece(Coding coding, std::span<const float> values, float scale, uint8_t* codes);
void quantise_rows(Coding coding, int64_t columns, std::span<const float> values, uint8_t* codes,
                   float* scales);

// A tensor's scales to codes; their offset is taken from `scales` on the way. Returns it.
float nest_scales(const NestedMap& map, std::span<float> scales, uint8_t* codes, float* nested_scales);

// `count` values of one row from `column` on, rounded to the format's dtype, as fp32. Those of fp8 need no
// rounding.
struct RowPiece {
  int64_t row = 0;
  int64_t column = 0;
  int64_t count = 0;
};
void dequantise(const CodeLayout& layout, const std::byte* weight, const RowPiece& piece, float* values);

}  // namespace snug
