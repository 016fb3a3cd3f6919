// Small checks that the shape rules of the ops are made of. Each returns "" or what is wrong.
#pragma once

#include <string>
#include <vector>

#include "ops/table.h"

namespace snug {

// The buffers of an op under the names its shape rule uses; absent ones are null.
const Buffer* input_of(const Program& program, const Op& op, size_t index);
const Buffer* output_of(const Program& program, const Op& op, size_t index);

// One expectation: `buffer` (if present) has these dims. A required one that is absent is a problem too.
struct Expected {
  const char* label;
  const Buffer* buffer;
  Dims dims;
  bool optional = false;
};
std::string find_mismatch(const std::vector<Expected>& expectations);

// All present buffers share one floating dtype.
std::string find_dtype_mismatch(const std::vector<const Buffer*>& buffers);

// Elements read and written by an op, in bytes, each buffer once.
double touched_bytes(const Program& program, const Op& op);

// Cost of an op that is one pass over its buffers with `flops_per_element` on the largest of them.
// A product is begun three times over: its tiles are filled, multiplied and written.
inline constexpr double kProductStarts = 3;

OpCost streaming_cost(const Program& program, const Op& op, double flops_per_element);

// Rows and columns of a matrix at the planned size.
inline int64_t rows_of(const Buffer& buffer) {
  return buffer.dims[0].max;
}
inline int64_t columns_of(const Buffer& buffer) {
  return buffer.dims.size() < 2 ? 1 : buffer.dims[1].max;
}

}  // namespace snug
