// The tokens of a micro-batch that the loss head looks at: those that have a target, so that no other ones
// are multiplied with the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace snug {

// Rows of the loss head (program/operands.h, LossHeadInput).
struct TargetRows {
  std::vector<int32_t>
      tokens;  // of the micro-batch, ascending; kNoToken at the end, so that sizes come again
  std::vector<int32_t> targets;  // of these tokens; kNoTarget where there is none

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};
inline constexpr int32_t kNoToken = -1;

// How many rows the head gets where `targets` of `tokens` tokens have a target: one of few numbers, as what a
// device has prepared for a number of rows (recorded graphs, chosen products) serves again where it comes
// again. All tokens, where that is nearly as few.
int64_t target_row_count(int64_t targets, int64_t tokens);

// `targets` is that of each token, kNoTarget where there is none. There may be none at all.
TargetRows make_target_rows(std::span<const int32_t> targets);

}  // namespace snug
