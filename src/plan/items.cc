// An output that takes over its input's memory is one item with it.
#include "plan/items.h"

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "ops/table.h"

namespace snug {
namespace {

// Lets an in-place op's output take over its input's memory: both become one placement item.
std::vector<BufferId> merge_in_place(const Program& program, const std::vector<Interval>& intervals) {
  std::vector<BufferId> leader(program.buffers.size());
  std::iota(leader.begin(), leader.end(), 0);
  for (int index = 0; index < static_cast<int>(program.ops.size()); ++index) {
    const Op& op = program.ops[static_cast<size_t>(index)];
    for (size_t place = 0; place < std::min(row_of(op.kind).in_place, op.outputs.size()); ++place) {
      bool hands_over =
          op.has_input(place) && op.has_output(place) &&
          (effect_on_input(op, place) == Effect::read || effect_on_input(op, place) == Effect::update) &&
          effect_on_output(op, place) == Effect::write;
      if (!hands_over) {
        continue;
      }
      BufferId from = op.inputs[place];
      BufferId to = op.outputs[place];
      const Buffer& source = program.buffer(from);
      const Buffer& target = program.buffer(to);
      bool both_temporary = source.lifetime == Lifetime::temporary && target.lifetime == Lifetime::temporary;
      bool handed_over = intervals[static_cast<size_t>(from)].last == index &&
                         intervals[static_cast<size_t>(to)].first == index;
      bool read_once = std::count(op.inputs.begin(), op.inputs.end(), from) == 1;
      bool same_size = padded_bytes(source) == padded_bytes(target) && source.home == target.home;
      if (both_temporary && handed_over && read_once && same_size) {
        leader[static_cast<size_t>(to)] = leader[static_cast<size_t>(from)];
      }
    }
  }
  return leader;
}

}  // namespace

int64_t padded_bytes(const Buffer& buffer) {
  return align_up(buffer.max_bytes());
}

ArenaItems items_on(const Program& program, Home home, const std::vector<Interval>& intervals) {
  std::vector<BufferId> leader = merge_in_place(program, intervals);
  ArenaItems result;
  result.item_of.assign(program.buffers.size(), -1);
  auto& [items, item_of] = result;
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.home != home || buffer.lifetime == Lifetime::persistent || intervals[id].first < 0) {
      continue;
    }
    int& item = item_of[static_cast<size_t>(leader[id])];
    if (item < 0) {
      item = static_cast<int>(items.size());
      items.push_back({intervals[id], padded_bytes(buffer)});
    } else {
      Interval& merged = items[static_cast<size_t>(item)].interval;
      merged.first = std::min(merged.first, intervals[id].first);
      merged.last = std::max(merged.last, intervals[id].last);
    }
    item_of[id] = item;
  }
  return result;
}

}  // namespace snug
