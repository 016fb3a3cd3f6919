// Asking the driver.
#include "backend/cuda_plan/card_health.h"

namespace snug::cuda {
namespace {

constexpr int kSensorOfTheChip = 0;
// Reasons for clocks that are lower than asked for.
constexpr unsigned long long kSoftwareHeat = 0x20;
constexpr unsigned long long kHardwareHeat = 0x40;
constexpr unsigned long long kPowerBrake = 0x80;

}  // namespace

std::optional<CardHealth> card_health(const std::string& pci_bus_id, const NvmlTable& table) {
  void* card = nullptr;
  if (table.by_pci_bus_id == nullptr || table.by_pci_bus_id(pci_bus_id.c_str(), &card) != kNvmlSuccess) {
    return std::nullopt;
  }
  CardHealth health;
  if (unsigned celsius = 0;
      table.temperature != nullptr && table.temperature(card, kSensorOfTheChip, &celsius) == kNvmlSuccess) {
    health.celsius = static_cast<int>(celsius);
  }
  if (unsigned milliwatts = 0; table.power != nullptr && table.power(card, &milliwatts) == kNvmlSuccess) {
    health.watts = milliwatts / 1000.0;
  }
  if (unsigned long long reasons = 0;
      table.slowdown_reasons != nullptr && table.slowdown_reasons(card, &reasons) == kNvmlSuccess) {
    health.is_slowed_by_heat = (reasons & (kSoftwareHeat | kHardwareHeat)) != 0;
    health.is_slowed_by_power_brake = (reasons & kPowerBrake) != 0;
  }
  return health;
}

}  // namespace snug::cuda
