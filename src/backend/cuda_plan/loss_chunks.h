// How the loss head cuts a batch into chunks, whose logits lie in the workspace.
#pragma once

#include <algorithm>

#include "base/bytes.h"
#include "base/dtype.h"
#include "program/op.h"

namespace snug::cuda {

// Rows of logits start at multiples of this many, so that kernels and products read them in full vectors.
inline constexpr int64_t kLogitsMultiple = 8;

inline int64_t logits_stride(int64_t vocabulary) {
  return align_up(vocabulary, kLogitsMultiple);
}

// In training logits are rounded to the dtype of x, as Hugging Face's are: their gradient takes their place.
// An evaluation's are fp32.
inline DType logits_dtype(const Op& op, DType x) {
  return op.kind == OpKind::loss_head_gradient ? x : DType::f32;
}

// Left to the backend: about 320 MiB of logits, in whole tiles of the products. With fewer rows than some 500
// reading the weights would take longer than multiplying them.
inline int64_t chunk_rows(const Op& op, int64_t targets, int64_t vocabulary, DType logits) {
  constexpr int64_t kTileRows = 128;
  int64_t asked = attributes_of<LossAttributes>(op).chunk_tokens;
  int64_t tiles = (int64_t{320} << 20) / (size_of(logits) * vocabulary * kTileRows);
  int64_t rows = asked > 0 ? asked : std::clamp<int64_t>(tiles, 1, 32) * kTileRows;
  return std::min(rows, targets);
}

}  // namespace snug::cuda
