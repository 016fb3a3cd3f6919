// Filling.
#include "data/batches/cut.h"

#include "base/check.h"

namespace snug {
namespace {

BatchLimits together(const BatchLimits& a, const BatchLimits& b) {
  return {.sequences = a.sequences + b.sequences,
          .tokens = a.tokens + b.tokens,
          .source_tokens = a.source_tokens + b.source_tokens};
}

}  // namespace

bool MicroBatchFilling::has_room_for(const BatchLimits& piece) const {
  BatchLimits filled = together(now_, piece);
  return filled.sequences <= most_.sequences && filled.tokens <= most_.tokens &&
         filled.source_tokens <= most_.source_tokens;
}

bool MicroBatchFilling::begins_with(const BatchLimits& piece) {
  bool begins = now_.sequences == 0 || !has_room_for(piece);
  if (begins) {
    now_ = {};
    SNUG_CHECK(has_room_for(piece), "a micro-batch has room for every piece");
  }
  now_ = together(now_, piece);
  return begins;
}

BatchLimits piece_size(const Dataset& dataset, const EpochPieces& epoch, int64_t piece) {
  BatchLimits size;
  for (int64_t example : epoch.pieces(piece, piece + 1)) {
    size = together(size, {.sequences = 1,
                           .tokens = dataset.length_tokens(example),
                           .source_tokens = dataset.source_length_tokens(example)});
  }
  return size;
}

std::vector<int64_t> cut_pieces(const Dataset& dataset, const EpochPieces& epoch, int64_t first, int64_t end,
                                const BatchLimits& most) {
  MicroBatchFilling filling(most);
  std::vector<int64_t> ends;
  for (int64_t piece = first; piece < end; ++piece) {
    if (filling.begins_with(piece_size(dataset, epoch, piece)) && piece > first) {
      ends.push_back(piece);
    }
  }
  if (first < end) {
    ends.push_back(end);
  }
  return ends;
}

}  // namespace snug
