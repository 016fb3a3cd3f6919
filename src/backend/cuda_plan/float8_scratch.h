// What a product in fp8 takes as scratch: what the plan reserves and the kernels use.
#pragma once

#include <cstdint>

#include "backend/cuda_plan/code_slices.h"
#include "backend/cuda_plan/scratch.h"

namespace snug::cuda {

// Of x [T,in] (or dy [T,out]) and W [out,in]: x in 8 bits with the scales of its rows; for a gradient W^T, in
// slices of so many of its rows, with scales that are all 1.
struct Float8Scratch {
  int64_t rows = 0;   // of x or dy
  int64_t inner = 0;  // their columns
  int64_t slice = 0;  // rows of W^T in a slice; 0: none is needed

  constexpr Float8Scratch(int64_t token_count, int64_t out, int64_t in, bool forward)
      : rows(token_count), inner(forward ? in : out), slice(forward ? 0 : slice_size(in, out, DType::u8)) {}

  constexpr int64_t bytes() const {
    return padded_bytes_of<uint8_t>(rows * inner) + padded_bytes_of<float>(rows) +
           padded_bytes_of<uint8_t>(slice * inner) + padded_bytes_of<float>(slice);
  }
};

}  // namespace snug::cuda
