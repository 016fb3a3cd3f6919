// A list that grows by blocks: growing never copies, and its memory goes back to the system as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug {

template <typename Value>
class BlockList {
 public:
  void push_back(const Value& value) {
    if (blocks_.empty() || blocks_.back().size() == kBlockValues) {
      blocks_.emplace_back().reserve(kBlockValues);
    }
    blocks_.back().push_back(value);
    ++size_;
  }

  size_t size() const { return size_; }
  const std::vector<std::vector<Value>>& blocks() const { return blocks_; }

 private:
  static constexpr size_t kBlockValues = size_t{1} << 18;
  std::vector<std::vector<Value>> blocks_;
  size_t size_ = 0;
};

}  // namespace snug
