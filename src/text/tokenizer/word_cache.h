// The ids of words seen before. Texts repeat their words; encoding each once is most of the speed. One cache
// line a word, of a fixed size in all: a new word takes the place of the one that was there.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace snug {

class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 31;
  static constexpr size_t kMaxIds = 7;

  struct alignas(64) Entry {
    std::array<uint64_t, 4> key{};  // the word, zeros, and its length in the last byte; all zero: empty
    std::array<int32_t, kMaxIds> ids{};
    int32_t count = -1;  // -1: not known yet
  };

  // The entry of a word of 1 to kMaxWordBytes bytes; where the word is new, its count is -1 and to be filled
  // in.
  Entry& find(std::string_view word) {
    if (entries_.empty()) {
      entries_.resize(kEntries);
    }
    std::array<uint64_t, 4> key{};
    std::memcpy(key.data(), word.data(), word.size());
    key[3] |= static_cast<uint64_t>(word.size()) << 56;
    Entry& entry = entries_[hash(key)];
    if (entry.key != key) {
      entry.key = key;
      entry.count = -1;
    }
    return entry;
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 15;  // 2 MiB

  static size_t hash(const std::array<uint64_t, 4>& key) {
    uint64_t mixed = (key[0] ^ 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 31) ^ key[1]) * 0x94D049BB133111EBULL;
    mixed = (mixed ^ (mixed >> 29) ^ key[2]) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 31) ^ key[3]) * 0x9E3779B97F4A7C15ULL;
    return static_cast<size_t>(mixed >> (64 - 15));
  }

  std::vector<Entry> entries_;
};

}  // namespace snug
