// Which elements a dropout drops: one rule for all backends, so that all drop the same.
//
// No mask is ever stored. random = {seed, step, first token}: the first token says where this micro-batch
// begins within the step, so that cutting a step into other micro-batches drops the same elements. Element i
// of a place in the model (its stream) is kept if word i % 4 of philox(seed, stream ^ mix(step), i / 4), read
// as a fraction in [0, 1), is at least p; what is kept is divided by 1 - p. The gradient and a recomputed
// forward pass make the same mask again.
//
// In a matrix of `columns` columns, the element in column c of row t is i = (first token + t) * columns + c.
// Attention's weights are such a matrix, with kMaskedKeys columns a head: the weight of query t, head h and
// key k of its sequence is i = ((first token + t) * heads + h) * kMaskedKeys + k.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace snug {

// More than any sequence has: the longest data.max_length.
inline constexpr int64_t kMaskedKeys = int64_t{1} << 24;

// constexpr, so that device code can call them too.

constexpr uint64_t mask_stream(uint64_t stream, int64_t step) {
  return stream ^ mix(static_cast<uint64_t>(step));
}

// The first element of a query's row of weights, in groups of four: `query` is counted from the step's first.
constexpr uint64_t first_weight_group(int64_t query, int64_t heads, int64_t head) {
  return static_cast<uint64_t>(query * heads + head) * static_cast<uint64_t>(kMaskedKeys / 4);
}

constexpr float kept_scale(float probability) {
  return 1.0F / (1.0F - probability);
}

}  // namespace snug
