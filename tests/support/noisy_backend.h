// The CPU backend with memory that starts as noise: reading what nothing wrote shows.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "support/written_bytes.h"

namespace snug {

class NoisyBackend : public CpuBackend {
 public:
  std::byte* allocate_arena(Home home, int64_t bytes) override {
    std::byte* arena = CpuBackend::allocate_arena(home, bytes);
    for (int64_t i = 0; i < bytes; ++i) {
      arena[i] = noise(i);
    }
    return arena;
  }
};

}  // namespace snug
