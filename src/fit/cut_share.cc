// Counts.
#include "fit/cut_share.h"

#include <algorithm>

namespace snug {

CutShare share_cut(const Dataset& dataset, int64_t length_tokens, CutSide side) {
  double rows = 0;
  double cut_rows = 0;
  double tokens = 0;
  double cut_tokens = 0;
  for (const Dataset::Part& part : dataset.parts()) {
    for (int64_t i = part.first; i < part.end; ++i) {
      int64_t length = side == CutSide::sources ? dataset.source_length_tokens(i) : dataset.length_tokens(i);
      int64_t over = std::max<int64_t>(length - length_tokens, 0);
      rows += part.weight;
      tokens += part.weight * static_cast<double>(length);
      cut_rows += over > 0 ? part.weight : 0;
      cut_tokens += part.weight * static_cast<double>(over);
    }
  }
  return {rows > 0 ? cut_rows / rows : 0, tokens > 0 ? cut_tokens / tokens : 0};
}

}  // namespace snug
