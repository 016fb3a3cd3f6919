// The merging half of byte-pair encoding: which neighbouring symbols become one, and in which order. It knows
// ids only, so it serves byte-level vocabularies and those made of characters alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/tokenizer/word_model.h"

namespace snug {

class BpeMerges {
 public:
  // `merges`, best first, over the pieces of `vocabulary`; `path` names the file in errors.
  BpeMerges(std::span<const std::pair<std::string, std::string>> merges,
            const std::unordered_map<std::string, int32_t>& vocabulary, const std::string& path);

  // Merges scratch.symbols, the symbols of one word, in place: always the best pair, of equals the leftmost,
  // until none is left.
  void apply(EncodeScratch& scratch) const;

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Slot {
    uint64_t pair = UINT64_MAX;  // left and right symbol; all ones: empty
    uint32_t rank = kNoRank;
    int32_t merged = 0;
  };

  const Slot& find(int32_t left, int32_t right) const;
  void insert(uint64_t pair, uint32_t rank, int32_t merged);
  void apply_by_scan(std::vector<int32_t>& symbols) const;
  void apply_by_queue(EncodeScratch& scratch) const;

  std::vector<Slot> slots_;  // open addressing, at most half full
  uint64_t mask_ = 0;
};

}  // namespace snug
