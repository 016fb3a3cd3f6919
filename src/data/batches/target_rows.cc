// Rounding up, and gathering.
#include "data/batches/target_rows.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/bytes.h"
#include "data/tokens/example.h"

namespace snug {

// Multiples of 64, half a tile of a product, and of more rows than 2048 of a sixteenth of the power of two
// that is not above them: 16 numbers an octave, and at most a sixteenth too many. Where a sixteenth of the
// tokens or less would be left out, gathering the rest is not worth it.
int64_t target_row_count(int64_t targets, int64_t tokens) {
  constexpr int64_t kMultiple = 64;
  constexpr int64_t kParts = 16;
  int64_t least = std::max<int64_t>(targets, 1);
  auto octave = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(least)));
  int64_t rows = align_up(least, std::max(octave / kParts, kMultiple));
  return kParts * rows >= (kParts - 1) * tokens ? tokens : rows;
}

TargetRows make_target_rows(std::span<const int32_t> targets) {
  auto is_target = [](int32_t target) { return target >= 0; };
  auto tokens = static_cast<int64_t>(targets.size());
  int64_t count = target_row_count(std::count_if(targets.begin(), targets.end(), is_target), tokens);
  TargetRows rows;
  if (count == tokens) {
    rows.tokens.resize(targets.size());
    std::iota(rows.tokens.begin(), rows.tokens.end(), 0);
    rows.targets.assign(targets.begin(), targets.end());
    return rows;
  }
  rows.tokens.reserve(static_cast<size_t>(count));
  rows.targets.reserve(static_cast<size_t>(count));
  for (size_t token = 0; token < targets.size(); ++token) {
    if (is_target(targets[token])) {
      rows.tokens.push_back(static_cast<int32_t>(token));
      rows.targets.push_back(targets[token]);
    }
  }
  rows.tokens.resize(static_cast<size_t>(count), kNoToken);
  rows.targets.resize(static_cast<size_t>(count), kNoTarget);
  return rows;
}

}  // namespace snug
