// philox (base/rng.h) for many consecutive counters: each round is a loop over them that vectorises.
#pragma once

#include <cstddef>
#include <cstdint>

namespace snug {

class PhiloxLanes {
 public:
  static constexpr size_t kLanes = 64;

  template <int kRounds = 10>
  void run(uint64_t key, uint64_t stream, uint64_t first_counter, size_t lanes = kLanes) {
#pragma omp simd
    for (size_t i = 0; i < lanes; ++i) {
      uint64_t counter = first_counter + i;
      words[0][i] = static_cast<uint32_t>(counter);
      words[1][i] = static_cast<uint32_t>(counter >> 32);
      words[2][i] = static_cast<uint32_t>(stream);
      words[3][i] = static_cast<uint32_t>(stream >> 32);
    }
    auto k0 = static_cast<uint32_t>(key);
    auto k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
#pragma omp simd
      for (size_t i = 0; i < lanes; ++i) {
        // Both halves of a product by themselves, for which g++ finds fewer instructions than for all of it.
        constexpr uint32_t kFactor0 = 0xD2511F53U;
        constexpr uint32_t kFactor2 = 0xCD9E8D57U;
        uint32_t word0 = words[0][i];
        uint32_t word2 = words[2][i];
        words[0][i] = static_cast<uint32_t>((uint64_t{kFactor2} * word2) >> 32) ^ words[1][i] ^ k0;
        words[1][i] = kFactor2 * word2;
        words[2][i] = static_cast<uint32_t>((uint64_t{kFactor0} * word0) >> 32) ^ words[3][i] ^ k1;
        words[3][i] = kFactor0 * word0;
      }
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
  }

  uint32_t words[4][kLanes];  // words[w][i]: word w of the first counter + i
};

}  // namespace snug
