// Values for tests: random inputs, roundings, and comparisons that say which element differs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "program/buffer.h"
#include "support/rounding.h"

namespace snug {

inline Dim tokens(int64_t max) {
  return Dim{Extent::tokens, max};
}
inline Dim target_rows(int64_t max) {
  return Dim{Extent::targets, max};
}
inline Dim sequences(int64_t max) {
  return Dim{Extent::sequences, max};
}
inline Dim offsets(int64_t max) {
  return Dim{Extent::offsets, max};
}

// Extents with this many tokens, for programs that vary in nothing else.
inline Extents at_tokens(int64_t count) {
  Extents extents{};
  extents[static_cast<size_t>(Extent::tokens)] = count;
  return extents;
}

// Likewise, where the loss head has this many rows.
inline Extents at_tokens(int64_t count, int64_t rows) {
  Extents extents = at_tokens(count);
  extents[static_cast<size_t>(Extent::targets)] = rows;
  return extents;
}

// 0, 1, 2, ...: the rows of a loss head that looks at all tokens.
inline std::vector<int64_t> all_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Normally distributed, the same for the same seed.
inline std::vector<float> random_values(int64_t count, uint64_t seed, float deviation = 1.0F) {
  Rng rng(seed, 0x7465737473ULL);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = rng.normal() * deviation;
  }
  return values;
}

inline std::vector<int64_t> random_ids(int64_t count, uint64_t seed, int64_t bound) {
  Rng rng(seed, 0x696473ULL);
  std::vector<int64_t> ids(static_cast<size_t>(count));
  for (int64_t& id : ids) {
    id = static_cast<int64_t>(rng.below(static_cast<uint64_t>(bound)));
  }
  return ids;
}

// What a buffer of this dtype holds after these values were written to it.
inline std::vector<float> rounded(std::vector<float> values, DType dtype) {
  if (dtype == DType::bf16) {
    for (float& value : values) {
      value = to_float(to_bf16(value));
    }
  }
  return values;
}

// A result made in fp32 of sums of up to 256 numbers; in bf16 its last rounding outweighs all before it.
inline double tolerance_of(DType dtype) {
  return fp32_error(256) + (dtype == DType::bf16 ? 0x1p-8 : 0);
}

// |actual - expected| <= tolerance * max(|expected|, floor), element by element; NaN never passes.
template <typename Expected>
void expect_close(const std::vector<float>& actual, const std::vector<Expected>& expected, double tolerance,
                  double floor = 1.0) {
  ASSERT_EQ(actual.size(), expected.size());
  int reported = 0;
  for (size_t i = 0; i < actual.size() && reported < 5; ++i) {
    double wanted = static_cast<double>(expected[i]);
    double allowed = tolerance * std::max(std::abs(wanted), floor);
    if (!(std::abs(static_cast<double>(actual[i]) - wanted) <= allowed)) {
      ADD_FAILURE() << "element " << i << ": " << actual[i] << ", expected " << wanted << " +- " << allowed;
      ++reported;
    }
  }
}

}  // namespace snug
