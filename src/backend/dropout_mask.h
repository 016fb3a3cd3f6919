// Which elements a dropout drops: one rule for all backends, so that all drop the same.
//
// No mask is ever stored. random = {seed, step, first token}: the first token says where this micro-batch
// begins within the step, so that cutting a step into other micro-batches drops the same elements. Eight
// elements of a place in the model (its stream) share the words of one call of philox: element i is kept if
// half i % 8 of philox<7>(seed, stream ^ mix(step), i / 8), the low half of a word first, is at least
// p * 2^16, rounded; what is kept is divided by 1 - p. The gradient and a recomputed forward pass make the
// same mask again. With 32 bits and ten rounds an element, making masks took three times as long as reading
// and writing what they are for.
//
// In a matrix of `columns` columns, the element in column c of row t is i = (first token + t) * columns + c.
// Attention's weights are such a matrix, with kMaskedKeys columns a head: the weight of query t, head h and
// key k of its sequence is i = ((first token + t) * heads + h) * kMaskedKeys + k.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/rng.h"

namespace snug {

// More than any sequence has: the longest data.max_length.
inline constexpr int64_t kMaskedKeys = int64_t{1} << 24;

// What is constexpr can be called by device code, too.

constexpr uint64_t mask_stream(uint64_t stream, int64_t step) {
  return stream ^ mix(static_cast<uint64_t>(step));
}

// Elements that share the words of a call, and how many rounds make those.
inline constexpr int kMaskGroup = 8;
inline constexpr int kMaskRounds = 7;

constexpr std::array<uint32_t, 4> mask_words(uint64_t seed, uint64_t stream, uint64_t group) {
  return philox<kMaskRounds>(seed, stream, group);
}

// Of element i of a group: the half of words[i / 2] that is its own.
constexpr uint32_t mask_half(uint32_t word, int i) {
  return word >> (16 * (i % 2)) & 0xFFFFU;
}

// An element is kept if its half is at least this.
inline uint32_t keep_limit(float probability) {
  return static_cast<uint32_t>(std::min(std::lround(static_cast<double>(probability) * 0x1p16), 0xFFFFL));
}

// The first group of a query's row of weights: `query` is counted from the step's first.
constexpr uint64_t first_weight_group(int64_t query, int64_t heads, int64_t head) {
  return static_cast<uint64_t>(query * heads + head) * static_cast<uint64_t>(kMaskedKeys / kMaskGroup);
}

constexpr float kept_scale(float probability) {
  return 1.0F / (1.0F - probability);
}

}  // namespace snug
