// All entries of a vocabulary that a text starts with, in one walk over its bytes: a double-array trie.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug {

class PrefixTrie {
 public:
  static constexpr int32_t kNone = -1;

  PrefixTrie() = default;
  // Values are 0 or more; of a key given twice the later value counts. Empty keys are left out.
  explicit PrefixTrie(std::vector<std::pair<std::string, int32_t>> entries);

  // Calls visit(length_bytes, value) for every key that `text` starts with, shortest first.
  template <typename Visit>
  void visit_prefixes(std::string_view text, Visit&& visit) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      uint32_t child = units_[node].base + static_cast<uint8_t>(text[i]);
      if (child >= units_.size() || units_[child].parent != node) {
        return;
      }
      node = child;
      if (units_[node].value != kNone) {
        visit(i + 1, units_[node].value);
      }
    }
  }

  // The value of exactly this key, or kNone.
  int32_t find(std::string_view key) const;

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Unit {
    uint32_t base = 0;        // child c is at base + c
    uint32_t parent = kFree;  // kFree: not in use
    int32_t value = kNone;
  };
  using Entries = std::span<const std::pair<std::string, int32_t>>;
  struct Node {
    uint32_t index = 0;
    size_t depth_bytes = 0;
    Entries entries;  // sorted, all with the node's path as prefix
  };

  void place_children(const Node& node, std::vector<Node>& waiting);
  uint32_t find_base(std::span<const uint8_t> labels);

  std::vector<Unit> units_ = std::vector<Unit>(1);
  uint32_t first_free_ = 1;  // no unit before it is free
};

}  // namespace snug
