// philox (base/rng.h) for many consecutive counters: each round is a loop over them that vectorises.
#pragma once

#include <cstddef>
#include <cstdint>

namespace snug::cpu {

class PhiloxLanes {
 public:
  static constexpr size_t kLanes = 64;

  void run(uint64_t key, uint64_t stream, uint64_t first_counter, size_t lanes = kLanes) {
    for (size_t i = 0; i < lanes; ++i) {
      uint64_t counter = first_counter + i;
      words[0][i] = static_cast<uint32_t>(counter);
      words[1][i] = static_cast<uint32_t>(counter >> 32);
      words[2][i] = static_cast<uint32_t>(stream);
      words[3][i] = static_cast<uint32_t>(stream >> 32);
    }
    auto k0 = static_cast<uint32_t>(key);
    auto k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
#pragma omp simd
      for (size_t i = 0; i < lanes; ++i) {
        uint64_t p0 = 0xD2511F53ULL * words[0][i];
        uint64_t p1 = 0xCD9E8D57ULL * words[2][i];
        words[0][i] = static_cast<uint32_t>(p1 >> 32) ^ words[1][i] ^ k0;
        words[1][i] = static_cast<uint32_t>(p1);
        words[2][i] = static_cast<uint32_t>(p0 >> 32) ^ words[3][i] ^ k1;
        words[3][i] = static_cast<uint32_t>(p0);
      }
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
  }

  uint32_t words[4][kLanes];  // words[w][i]: word w of the first counter + i
};

}  // namespace snug::cpu
