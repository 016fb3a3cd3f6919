// The card as its driver describes it: memory, driver, and who is on it. Host code of every build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda_plan/nvml.h"

namespace snug::cuda {

struct CardProcess {
  unsigned pid = 0;
  std::string name;
  int64_t bytes = 0;  // 0: the driver does not tell
};

struct CardUse {
  std::string name;
  int capability = 0;  // 90 is 9.0; 0: the driver does not tell
  std::string driver_version;
  int cuda_version = 0;  // that the driver can do: 12080 is 12.8; 0: it does not tell
  int64_t total_bytes = 0;
  int64_t used_bytes = 0;      // by all processes and the driver itself
  int64_t reserved_bytes = 0;  // of those, by the driver itself, if it tells
  std::vector<CardProcess> processes;

  int64_t free_bytes() const { return total_bytes - used_bytes; }
  // What is used, and by none of the processes that the driver names; nothing if it does not say how much
  // each has.
  std::optional<int64_t> unclaimed_bytes() const;
};

// Of the card at this place of the machine (0000:01:00.0); nothing if NVML is not there or does not answer.
std::optional<CardUse> card_use(const std::string& pci_bus_id, const NvmlTable& table = nvml());

// Of all cards that the driver has, in its order.
std::vector<CardUse> all_cards(const NvmlTable& table = nvml());

// What this process takes of the card's memory by the driver's count; nothing if the driver does not tell.
std::optional<int64_t> own_card_bytes(const CardUse& use);

// "python3 (pid 1234) holds 12.3 GiB, ..."; "" if there is no other process.
std::string describe_others(const CardUse& use);

}  // namespace snug::cuda
