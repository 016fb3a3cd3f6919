// Waiting for memory, with a clock that the test turns.
#include "doctor/waiting.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

struct Machine {
  int64_t seconds = 0;
  int64_t free_at = 0;      // when the other one is done
  int64_t stopped_at = -1;  // when a signal comes
  bool fidgets = false;     // the other one takes a little more each time
  std::vector<std::pair<int64_t, std::string>> told = {};

  WaitResult wait(std::optional<int64_t> minutes = std::nullopt) {
    return wait_for_memory(1000, {.look = [&]() -> std::optional<DeviceMemory> {
                                    if (seconds >= free_at) {
                                      return DeviceMemory{"a card", 1000, {}};
                                    }
                                    return DeviceMemory{"a card", fidgets ? 900 - seconds : 900, {"anna"}};
                                  },
                                  .should_stop = [&] { return stopped_at >= 0 && seconds >= stopped_at; },
                                  .sleep = [&](int more) { seconds += more; },
                                  .tell = [&](const std::string& text) { told.emplace_back(seconds, text); },
                                  .most_minutes = minutes});
  }
};

TEST(Waiting, StartsAtOnceWhereThereIsRoom) {
  Machine machine;
  EXPECT_EQ(machine.wait(), WaitResult::has_room);
  EXPECT_EQ(machine.seconds, 0);
  EXPECT_TRUE(machine.told.empty());
}

TEST(Waiting, SaysWhoHoldsItAndStartsWhenItIsFree) {
  Machine machine{.free_at = 130};
  EXPECT_EQ(machine.wait(), WaitResult::has_room);
  EXPECT_EQ(machine.seconds, 130);
  ASSERT_EQ(machine.told.size(), 2U) << "once, as nothing has changed, and when there is room";
  EXPECT_EQ(machine.told[0].second, "waiting for 1000 B on a card; 900 B are free\n  anna\n");
  EXPECT_EQ(machine.told[1].second, "there is room after 2m 10s\n");
}

TEST(Waiting, SaysSomethingOnceAMinuteAtMost) {
  Machine machine{.free_at = 301, .fidgets = true};
  EXPECT_EQ(machine.wait(), WaitResult::has_room);
  ASSERT_GE(machine.told.size(), 3U);
  for (size_t i = 1; i + 1 < machine.told.size(); ++i) {
    EXPECT_GE(machine.told[i].first - machine.told[i - 1].first, 60);
  }
}

TEST(Waiting, EndsByASignalOrItsTime) {
  Machine stopped{.free_at = 1000, .stopped_at = 10};
  EXPECT_EQ(stopped.wait(), WaitResult::stopped);
  EXPECT_EQ(stopped.seconds, 10);
  Machine late{.free_at = 1000};
  EXPECT_EQ(late.wait(3), WaitResult::too_long);
  EXPECT_EQ(late.seconds, 180);
}

// Without a driver's word there is nothing to wait for.
TEST(Waiting, DoesNotWaitForWhatNobodyCanTell) {
  WaitResult result = wait_for_memory(1, {.look = [] { return std::nullopt; },
                                          .should_stop = [] { return false; },
                                          .sleep = [](int) { FAIL(); },
                                          .tell = [](const std::string&) {},
                                          .most_minutes = std::nullopt});
  EXPECT_EQ(result, WaitResult::has_room);
}

}  // namespace
}  // namespace snug
