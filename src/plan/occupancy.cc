// The tree of what is taken.
#include "plan/occupancy.h"

#include <algorithm>
#include <bit>
#include <span>

namespace snug {

Occupancy::Occupancy(int ops) {
  while (leaves_ < static_cast<size_t>(ops)) {
    leaves_ *= 2;
  }
  nodes_.resize(2 * leaves_);
  // Of a level, an interval has two parts at most, and two nodes contain one of its ends.
  cursors_.resize(4 * static_cast<size_t>(std::bit_width(leaves_)));
}

template <typename Visit>
void Occupancy::for_each_part(const Interval& interval, const Visit& visit) const {
  size_t first = leaves_ + static_cast<size_t>(interval.first);
  size_t end = leaves_ + static_cast<size_t>(interval.last) + 1;
  for (; first < end; first /= 2, end /= 2) {
    if (first % 2 == 1) {
      visit(first++);
    }
    if (end % 2 == 1) {
      visit(--end);
    }
  }
}

bool Occupancy::add(Ranges& ranges, const Range& range) {
  // The first that touches it or lies behind it.
  auto first = std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                                [](const Range& one, int64_t begin) { return one.end < begin; });
  if (first != ranges.end() && first->begin <= range.begin && range.end <= first->end) {
    return false;
  }
  auto last = first;
  Range joined = range;
  for (; last != ranges.end() && last->begin <= range.end; ++last) {
    joined.begin = std::min(joined.begin, last->begin);
    joined.end = std::max(joined.end, last->end);
    ++looked_at_;
  }
  if (first == last) {
    ranges.insert(first, joined);
  } else {
    *first = joined;
    ranges.erase(first + 1, last);
  }
  return true;
}

void Occupancy::take(const Interval& interval, int64_t offset, int64_t bytes) {
  Range range{offset, offset + bytes};
  for_each_part(interval, [&](size_t part) {
    add(nodes_[part].throughout, range);
    // What a node has, those above it have.
    for (size_t node = part; node > 0 && add(nodes_[node].somewhere, range); node /= 2) {
    }
  });
}

int64_t Occupancy::lowest_free(const Interval& interval, int64_t bytes) {
  // What is taken at an op of the interval was put below one of its parts, or is taken throughout a node
  // above; those contain one of its ends.
  size_t count = 0;
  auto collect = [&](const Ranges& ranges) {
    cursors_[count] = {ranges.data(), ranges.data() + ranges.size()};
    count += static_cast<size_t>(!ranges.empty());
  };
  for_each_part(interval, [&](size_t part) { collect(nodes_[part].somewhere); });
  size_t first = leaves_ + static_cast<size_t>(interval.first);
  size_t last = leaves_ + static_cast<size_t>(interval.last);
  for (; first > 0; first /= 2, last /= 2) {
    collect(nodes_[first].throughout);
    if (last != first) {
      collect(nodes_[last].throughout);
    }
  }
  int64_t offset = 0;
  for (bool is_free = false; !is_free;) {
    is_free = true;
    for (Cursor& cursor : std::span(cursors_).first(count)) {
      while (cursor.next != cursor.end && cursor.next->end <= offset) {
        ++cursor.next;
        ++looked_at_;
      }
      ++looked_at_;
      if (cursor.next != cursor.end && cursor.next->begin < offset + bytes) {
        offset = cursor.next->end;
        is_free = false;
      }
    }
  }
  return offset;
}

void Occupancy::clear() {
  for (Node& node : nodes_) {
    node.throughout.clear();
    node.somewhere.clear();
  }
}

}  // namespace snug
