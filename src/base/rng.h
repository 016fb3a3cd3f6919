// Counter-based random numbers: the same (seed, stream, counter) gives the same bits on every machine,
// backend and thread count, so a mask can be made again instead of being kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace snug {

// Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): four words a call. Seven rounds
// are the fewest that pass the tests of randomness there, ten leave a margin. constexpr, so that device code
// can call it too.
template <int kRounds = 10>
constexpr std::array<uint32_t, 4> philox(uint64_t key, uint64_t stream, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter);
  uint32_t c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream);
  uint32_t c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    uint64_t p0 = 0xD2511F53ULL * c0;
    uint64_t p1 = 0xCD9E8D57ULL * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {c0, c1, c2, c3};
}

// The finaliser of splitmix64: spreads a number over all bits, so that a stream and a step, each changed by
// little, do not meet another stream at another step.
constexpr uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

// In [0, 1), 24 bits: exact in fp32.
constexpr float unit_float(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

// A normal number of mean 0 and variance 1. The lower 31 bits say which share of all such numbers lies
// further out on the same side, (bits + 1/2) / 2^32, and the highest bit which side it is. None lies
// beyond 6.34, where one is expected in 2^32. The same bits on every machine.
float normal_float(uint32_t word);

// A sequential view over one stream, for host code (initialisation, shuffling, sampling).
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t next_u32() {
    if (used_ == 4) {
      words_ = philox(seed_, stream_, counter_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  // Goes on at the given word of the stream, counted from its beginning.
  void seek(uint64_t word) {
    counter_ = word / 4;
    words_ = philox(seed_, stream_, counter_++);
    used_ = word % 4;
  }
  uint64_t next_u64() {
    uint64_t high = next_u32();
    return (high << 32) | next_u32();
  }
  float uniform() { return unit_float(next_u32()); }
  float normal() { return normal_float(next_u32()); }
  uint64_t below(uint64_t bound);  // unbiased, in [0, bound)

  // The numbers that as many calls of uniform or normal give, many times faster.
  void fill_uniform(std::span<float> values);
  void fill_normal(std::span<float> values);

 private:
  template <typename Number>
  void fill(std::span<float> values, const Number& number_of);

  uint64_t seed_;
  uint64_t stream_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> words_{};
  size_t used_ = 4;
};

}  // namespace snug
