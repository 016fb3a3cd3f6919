// What a card has drawn: a card that is held at its power limit computes as fast as its joules allow.
#pragma once

#include <optional>

#include "backend/cuda_plan/nvml.h"

namespace snug {

// Joules that the first card has drawn since its driver was loaded; nothing where NVML does not tell.
inline std::optional<double> card_joules() {
  const cuda::NvmlTable& table = cuda::nvml();
  void* card = nullptr;
  unsigned long long millijoules = 0;
  if (table.by_index == nullptr || table.energy == nullptr ||
      table.by_index(0, &card) != cuda::kNvmlSuccess ||
      table.energy(card, &millijoules) != cuda::kNvmlSuccess) {
    return std::nullopt;
  }
  return static_cast<double>(millijoules) * 1e-3;
}

}  // namespace snug
