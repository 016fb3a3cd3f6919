// Products and sums of sizes that come from a user's files: where 64 bits do not hold the result, that is an
// error of the file, not a wrong number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace snug {

// Sizes stay this far below what 64 bits hold, so that a few small factors (an element's bytes, padding) are
// safe.
inline constexpr int64_t kLargestCount = int64_t{1} << 56;

inline int64_t require_countable(bool overflows, int64_t count, std::string_view what) {
  if (overflows || count > kLargestCount) {
    throw bad_input(std::string(what) +
                    " would have more than 2^56 elements: look for a size in config.json, or a batch size or "
                    "length in the recipe, that has too many digits");
  }
  return count;
}

inline int64_t multiply_sizes(int64_t a, int64_t b, std::string_view what) {
  int64_t product = 0;
  bool overflows = __builtin_mul_overflow(a, b, &product);
  return require_countable(overflows, product, what);
}

inline int64_t add_sizes(int64_t a, int64_t b, std::string_view what) {
  int64_t sum = 0;
  bool overflows = __builtin_add_overflow(a, b, &sum);
  return require_countable(overflows, sum, what);
}

}  // namespace snug
