// The card as its driver describes it (NVML, opened at run time): memory, driver, and who else is on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda_plan/card_rates.h"
#include "backend/cuda_plan/cards.h"

namespace snug::cuda {

struct CardProcess {
  unsigned pid = 0;
  std::string name;
  int64_t bytes = 0;  // 0: the driver does not tell
};

struct CardUse {
  std::string driver_version;
  int64_t total_bytes = 0;
  int64_t used_bytes = 0;  // by all processes and the driver itself
  std::vector<CardProcess> processes;
};

// Throws environment_error if there is no card, or if its driver is too old.
void require_card();

// Those that this process may see; there has to be one.
std::vector<Card> find_cards();

CardShape read_card_shape(int card);

// By its number, as the driver names its place in the machine.
std::string pci_bus_id(int card);

// Nothing if NVML is not there or does not answer. `pci_bus_id` as above.
std::optional<CardUse> card_use(const std::string& pci_bus_id);

// What this process takes of the card's memory by the driver's count; nothing if the driver does not tell.
std::optional<int64_t> own_card_bytes(const CardUse& use);

// "python3 (pid 1234) holds 12.3 GiB, ..."; "" if there is no other process.
std::string describe_others(const CardUse& use);

}  // namespace snug::cuda
