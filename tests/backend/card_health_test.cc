// What a driver says of a card's heat, by a driver of the test's own.
#include "backend/cuda_plan/card_health.h"

#include <gtest/gtest.h>

namespace snug::cuda {
namespace {

unsigned long long reasons = 0;

NvmlTable hot_card() {
  NvmlTable table;
  table.by_pci_bus_id = [](const char* id, void** card) {
    *card = &reasons;
    return std::string(id) == "0000:01:00.0" ? kNvmlSuccess : 2;
  };
  table.temperature = [](void*, int sensor, unsigned* celsius) {
    *celsius = 88;
    return sensor == 0 ? kNvmlSuccess : 2;
  };
  table.power = [](void*, unsigned* milliwatts) {
    *milliwatts = 310'500;
    return kNvmlSuccess;
  };
  table.slowdown_reasons = [](void* card, unsigned long long* found) {
    *found = *static_cast<unsigned long long*>(card);
    return kNvmlSuccess;
  };
  return table;
}

TEST(CardHealth, IsWhatTheDriverSays) {
  reasons = 0;
  std::optional<CardHealth> health = card_health("0000:01:00.0", hot_card());
  ASSERT_TRUE(health);
  EXPECT_EQ(health->celsius, 88);
  EXPECT_EQ(health->watts, 310.5);
  EXPECT_FALSE(health->is_slowed_by_heat);
  for (unsigned long long heat : {0x20ULL, 0x40ULL, 0x48ULL}) {  // nvml.h: SW and HW thermal slowdown
    reasons = heat;
    EXPECT_TRUE(card_health("0000:01:00.0", hot_card())->is_slowed_by_heat);
  }
  reasons = 0x4;  // a power cap that was set is no trouble
  EXPECT_FALSE(card_health("0000:01:00.0", hot_card())->is_slowed_by_heat);
  EXPECT_FALSE(card_health("0000:01:00.0", hot_card())->is_slowed_by_power_brake);
  reasons = 0x80;
  EXPECT_TRUE(card_health("0000:01:00.0", hot_card())->is_slowed_by_power_brake);
}

TEST(CardHealth, LeavesOutWhatIsNotTold) {
  EXPECT_FALSE(card_health("0000:01:00.0", NvmlTable()));
  EXPECT_FALSE(card_health("0000:02:00.0", hot_card()));
  NvmlTable mute;
  mute.by_pci_bus_id = hot_card().by_pci_bus_id;
  std::optional<CardHealth> health = card_health("0000:01:00.0", mute);
  ASSERT_TRUE(health);
  EXPECT_FALSE(health->celsius);
  EXPECT_FALSE(health->watts);
}

}  // namespace
}  // namespace snug::cuda
