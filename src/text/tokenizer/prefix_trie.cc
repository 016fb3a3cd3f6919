// A double-array trie.
#include "text/tokenizer/prefix_trie.h"

#include <algorithm>

namespace snug {

namespace {

// Places tried for a node's children before they are put at the end: keeps building linear for any input.
constexpr int kMaxTries = 64;

}  // namespace

PrefixTrie::PrefixTrie(std::vector<std::pair<std::string, int32_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  units_[0].parent = 0;
  std::vector<Node> waiting = {{.index = 0, .depth_bytes = 0, .entries = entries}};
  while (!waiting.empty()) {
    Node node = waiting.back();
    waiting.pop_back();
    place_children(node, waiting);
  }
}

void PrefixTrie::place_children(const Node& node, std::vector<Node>& waiting) {
  size_t position = 0;
  while (position < node.entries.size() && node.entries[position].first.size() == node.depth_bytes) {
    units_[node.index].value = node.entries[position].second;
    ++position;
  }
  std::vector<uint8_t> labels;
  std::vector<size_t> begins;
  for (; position < node.entries.size(); ++position) {
    auto label = static_cast<uint8_t>(node.entries[position].first[node.depth_bytes]);
    if (labels.empty() || labels.back() != label) {
      labels.push_back(label);
      begins.push_back(position);
    }
  }
  if (labels.empty()) {
    return;
  }
  begins.push_back(node.entries.size());
  uint32_t base = find_base(labels);
  units_[node.index].base = base;
  for (size_t i = 0; i < labels.size(); ++i) {
    uint32_t child = base + labels[i];
    units_[child].parent = node.index;
    waiting.push_back({.index = child,
                       .depth_bytes = node.depth_bytes + 1,
                       .entries = node.entries.subspan(begins[i], begins[i + 1] - begins[i])});
  }
}

// A base at which the units of all labels are free; the units exist afterwards.
uint32_t PrefixTrie::find_base(std::span<const uint8_t> labels) {
  auto is_free = [&](uint32_t index) { return index >= units_.size() || units_[index].parent == kFree; };
  while (!is_free(first_free_)) {
    ++first_free_;
  }
  // Never 0 as a base plus label: unit 0 is the root.
  uint32_t base = std::max<uint32_t>(first_free_, labels[0] + 1U) - labels[0];
  for (int tries = 0;; ++tries) {
    if (tries == kMaxTries) {
      base = std::max(static_cast<uint32_t>(units_.size()), labels[0] + 1U) - labels[0];
    }
    if (std::all_of(labels.begin(), labels.end(), [&](uint8_t label) { return is_free(base + label); })) {
      break;
    }
    ++base;
  }
  size_t needed = static_cast<size_t>(base) + labels.back() + 1;
  if (needed > units_.size()) {
    units_.resize(needed);
  }
  return base;
}

int32_t PrefixTrie::find(std::string_view key) const {
  int32_t result = kNone;
  visit_prefixes(key, [&](size_t length_bytes, int32_t value) {
    if (length_bytes == key.size()) {
      result = value;
    }
  });
  return result;
}

}  // namespace snug
