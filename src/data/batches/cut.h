// How a step is cut into micro-batches: by what the plan has room for, not by a number of sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/batch_limits.h"
#include "data/batches/epoch.h"
#include "data/dataset.h"

namespace snug {

// Takes pieces in order; a micro-batch is closed where the next piece would be too much for it.
class MicroBatchFilling {
 public:
  explicit MicroBatchFilling(const BatchLimits& most) : most_(most) {}

  // True if a new micro-batch begins with this piece.
  bool begins_with(const BatchLimits& piece);

 private:
  bool has_room_for(const BatchLimits& piece) const;

  BatchLimits most_;
  BatchLimits now_;  // no sequences before the first piece
};

// What a piece brings into a micro-batch.
BatchLimits piece_size(const Dataset& dataset, const EpochPieces& epoch, int64_t piece);

// Where each micro-batch of the pieces from `first` up to `end` ends.
std::vector<int64_t> cut_pieces(const Dataset& dataset, const EpochPieces& epoch, int64_t first, int64_t end,
                                const BatchLimits& most);

}  // namespace snug
