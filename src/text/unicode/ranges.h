// Which code points are letters, numbers, marks and punctuation (Unicode's general categories L, N, M and P).
// Our own tables, because ids must not depend on the Unicode version of the libraries that a distribution
// ships.
#pragma once

#include <cstdint>
#include <span>

namespace snug {

struct CodepointRange {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
};

std::span<const CodepointRange> letter_ranges();
std::span<const CodepointRange> number_ranges();
std::span<const CodepointRange> mark_ranges();
std::span<const CodepointRange> punctuation_ranges();
// The marks that the reference implementation's normalizers know: those of an older Unicode.
std::span<const CodepointRange> old_mark_ranges();

struct CategoryRange {
  uint32_t first = 0;
  uint32_t last = 0;          // inclusive
  const char* category = "";  // two letters
};
// What Unicode 14, the oldest that a library may follow, does not know or puts elsewhere; in order.
std::span<const CategoryRange> newer_characters();

}  // namespace snug
