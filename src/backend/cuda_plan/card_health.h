// How hot a card is and what slows it down, as its driver tells. Host code of every build.
#pragma once

#include <optional>
#include <string>

#include "backend/cuda_plan/nvml.h"
#include "backend/device.h"

namespace snug::cuda {

// Of the card at this place of the machine (0000:01:00.0); nothing if NVML is not there or does not answer.
std::optional<CardHealth> card_health(const std::string& pci_bus_id, const NvmlTable& table = nvml());

}  // namespace snug::cuda
