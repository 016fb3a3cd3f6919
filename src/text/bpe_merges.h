// The merging half of byte-pair encoding: which neighbouring symbols become one, and in which order. It knows
// ids only, so it serves byte-level vocabularies and those made of characters alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace snug {

class BpeMerges {
 public:
  // `merges`, best first, over the pieces of `vocabulary`; `path` names the file in errors.
  BpeMerges(std::span<const std::pair<std::string, std::string>> merges,
            const std::unordered_map<std::string, int32_t>& vocabulary, const std::string& path);

  // Merges the symbols of one word in place: always the best pair, of equals the leftmost, until none is
  // left.
  void apply(std::vector<int32_t>& symbols) const;

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t merged = 0;
  };
  struct PairHash {
    size_t operator()(uint64_t pair) const;
  };

  const Merge* find(int32_t left, int32_t right) const;
  void apply_by_scan(std::vector<int32_t>& symbols) const;
  void apply_by_queue(std::vector<int32_t>& symbols) const;

  std::unordered_map<uint64_t, Merge, PairHash> merges_;
};

}  // namespace snug
