// What is placed: buffers, and what of them shares its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/effects.h"
#include "plan/placement.h"
#include "program/program.h"

namespace snug {

int64_t padded_bytes(const Buffer& buffer);

struct ArenaItems {
  std::vector<PlacementItem> items;
  std::vector<int> item_of;  // by BufferId; -1: not placed here
};

// All that does not persist and lives in `home`. `intervals` are the program's lifetimes.
ArenaItems items_on(const Program& program, Home home, const std::vector<Interval>& intervals);

}  // namespace snug
