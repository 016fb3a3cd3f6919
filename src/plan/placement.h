// Placement: gives every buffer of one arena an offset, so that buffers that live at the same time do not
// overlap and the arena is as small as can be found.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/effects.h"

namespace snug {

struct PlacementItem {
  Interval interval;
  int64_t bytes = 0;  // a multiple of kAlignment
};

struct Placement {
  std::vector<int64_t> offsets;   // by item
  int64_t bytes = 0;              // end of the highest item
  int64_t lower_bound_bytes = 0;  // the largest sum of live bytes: no placement can be smaller
  int peak_index = 0;             // the op at which that sum is reached
  int64_t looked_at = 0;          // how much work it was (plan/occupancy.h)
};

// Deterministic: the same items give the same offsets everywhere.
Placement place(const std::vector<PlacementItem>& items);

}  // namespace snug
