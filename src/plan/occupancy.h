// What of an arena is taken at which ops, so that the lowest place that is free throughout an interval is
// found without looking at everything that was placed before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/effects.h"

namespace snug {

// A tree over the ops: the leaves are ops, a node stands for those below it.
class Occupancy {
 public:
  // For intervals within [0, ops).
  explicit Occupancy(int ops);

  // The lowest offset at which `bytes` (more than 0) are free at every op of `interval`.
  int64_t lowest_free(const Interval& interval, int64_t bytes);
  void take(const Interval& interval, int64_t offset, int64_t bytes);
  void clear();

  // Ranges that were passed or compared with, since the beginning: how much work it was.
  int64_t looked_at() const { return looked_at_; }

 private:
  struct Range {
    int64_t begin;
    int64_t end;
  };
  using Ranges = std::vector<Range>;  // lowest first, with space between each two

  struct Node {
    Ranges throughout;  // taken at all ops of the node
    Ranges somewhere;   // taken at one of them at least
  };

  // Those that make up the interval.
  template <typename Visit>
  void for_each_part(const Interval& interval, const Visit& visit) const;
  bool add(Ranges& ranges, const Range& range);  // false: all of it is in there

  size_t leaves_ = 1;
  std::vector<Node> nodes_;  // the root is 1, below n are 2n and 2n + 1
  int64_t looked_at_ = 0;

  struct Cursor {
    const Range* next;
    const Range* end;
  };
  std::vector<Cursor> cursors_;  // of one search, those at the front
};

}  // namespace snug
