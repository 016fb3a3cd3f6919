// The lowest free place, against a search that tries one after the other; and how the work grows.
#include "plan/occupancy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "plan/placement.h"

namespace snug {
namespace {

struct Taken {
  Interval interval;
  int64_t offset;
  int64_t bytes;
};

bool is_free(const std::vector<Taken>& taken, const Interval& interval, int64_t offset, int64_t bytes) {
  return std::none_of(taken.begin(), taken.end(), [&](const Taken& one) {
    bool together = one.interval.first <= interval.last && interval.first <= one.interval.last;
    return together && one.offset < offset + bytes && offset < one.offset + one.bytes;
  });
}

TEST(Occupancy, FindsTheLowestPlaceThatIsFree) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    auto ops = static_cast<int>(1 + rng.below(40));
    Occupancy occupancy(ops);
    std::vector<Taken> taken;
    for (int item = 0; item < 60; ++item) {
      auto first = static_cast<int>(rng.below(static_cast<uint64_t>(ops)));
      auto last = first + static_cast<int>(rng.below(static_cast<uint64_t>(ops - first)));
      auto bytes = static_cast<int64_t>(1 + rng.below(9));
      int64_t lowest = 0;
      while (!is_free(taken, {first, last}, lowest, bytes)) {
        ++lowest;
      }
      ASSERT_EQ(occupancy.lowest_free({first, last}, bytes), lowest)
          << "round " << round << ", item " << item;
      // Not always the lowest, so that gaps remain.
      int64_t offset = lowest;
      if (int64_t higher = lowest + 3; rng.below(3) == 0 && is_free(taken, {first, last}, higher, bytes)) {
        offset = higher;
      }
      occupancy.take({first, last}, offset, bytes);
      taken.push_back({{first, last}, offset, bytes});
    }
  }
}

// The shape of training: what forward keeps lives until backward comes back to it, and each layer has
// short-lived buffers on both ways. Four times the layers are not much more than four times the work.
TEST(Occupancy, WorkGrowsAsTheProgramDoes) {
  auto work_of = [](int layers) {
    std::vector<PlacementItem> items;
    for (int layer = 0; layer < layers; ++layer) {
      int back = 4 * layers - 2 * layer;
      items.push_back({{2 * layer, back}, 64 * (1 + layer % 7)});
      items.push_back({{2 * layer, 2 * layer + 1}, 64 * 3});
      items.push_back({{back - 1, back}, 64 * 5});
    }
    return static_cast<double>(place(items).looked_at);
  };
  EXPECT_LT(work_of(4000), 6 * work_of(1000));
  EXPECT_LT(work_of(16000), 6 * work_of(4000));
}

}  // namespace
}  // namespace snug
