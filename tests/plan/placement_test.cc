// Placement on thousands of random programs: nothing that lives together overlaps, nothing is lost, and no
// result is smaller than what must be live at once.
#include "plan/placement.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/rng.h"

namespace snug {
namespace {

std::vector<PlacementItem> random_items(Rng& rng) {
  auto count = 1 + rng.below(40);
  auto ops = 1 + rng.below(60);
  std::vector<PlacementItem> items;
  for (uint64_t i = 0; i < count; ++i) {
    auto first = static_cast<int>(rng.below(ops));
    auto last = first + static_cast<int>(rng.below(ops - static_cast<uint64_t>(first)));
    items.push_back({{first, last}, kAlignment * static_cast<int64_t>(1 + rng.below(50))});
  }
  return items;
}

// Independent of the placer: live bytes at every op, summed one by one.
int64_t most_live_bytes(const std::vector<PlacementItem>& items) {
  int64_t most = 0;
  for (int op = 0; op < 200; ++op) {
    int64_t live = 0;
    for (const PlacementItem& item : items) {
      live += item.interval.first <= op && op <= item.interval.last ? item.bytes : 0;
    }
    most = std::max(most, live);
  }
  return most;
}

void expect_valid(const std::vector<PlacementItem>& items, const Placement& placement) {
  ASSERT_EQ(placement.offsets.size(), items.size());
  int64_t end = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_GE(placement.offsets[i], 0);
    ASSERT_EQ(placement.offsets[i] % kAlignment, 0);
    end = std::max(end, placement.offsets[i] + items[i].bytes);
    for (size_t j = i + 1; j < items.size(); ++j) {
      bool together = items[i].interval.first <= items[j].interval.last &&
                      items[j].interval.first <= items[i].interval.last;
      bool disjoint = placement.offsets[i] + items[i].bytes <= placement.offsets[j] ||
                      placement.offsets[j] + items[j].bytes <= placement.offsets[i];
      ASSERT_TRUE(!together || disjoint) << "items " << i << " and " << j;
    }
  }
  EXPECT_EQ(placement.bytes, end);
}

TEST(Placement, HoldsOnRandomPrograms) {
  Rng rng(7);
  for (int round = 0; round < 4000; ++round) {
    std::vector<PlacementItem> items = random_items(rng);
    Placement placement = place(items);
    expect_valid(items, placement);
    EXPECT_EQ(placement.lower_bound_bytes, most_live_bytes(items));
    EXPECT_GE(placement.bytes, placement.lower_bound_bytes);
    // Far from optimal would mean that placement is broken, whatever the program.
    EXPECT_LE(placement.bytes, 2 * placement.lower_bound_bytes);
  }
}

TEST(Placement, NestedLifetimesFitWithoutLoss) {
  // Forward writes one by one, backward reads in reverse: the shape of training.
  std::vector<PlacementItem> items;
  constexpr int kLayers = 50;
  for (int layer = 0; layer < kLayers; ++layer) {
    items.push_back({{layer, 2 * kLayers - layer}, kAlignment * (1 + layer % 7)});
    items.push_back({{layer, layer}, kAlignment * 3});
  }
  Placement placement = place(items);
  expect_valid(items, placement);
  EXPECT_EQ(placement.bytes, placement.lower_bound_bytes);
}

TEST(Placement, SameItemsGiveTheSameOffsets) {
  Rng rng(11);
  std::vector<PlacementItem> items = random_items(rng);
  EXPECT_EQ(place(items).offsets, place(items).offsets);
}

TEST(Placement, NothingTakesNothing) {
  EXPECT_EQ(place({}).bytes, 0);
}

}  // namespace
}  // namespace snug
