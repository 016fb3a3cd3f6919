// Tokenized data: every example's ids and targets, laid end to end.
#include "data/dataset.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace snug {

void Dataset::add(const Example& example) {
  SNUG_CHECK(example.ids.size() == example.targets.size(), "each position has a target or kNoTarget");
  SNUG_CHECK(example.has_target(), "an example without a target teaches nothing");
  ids_.insert(ids_.end(), example.ids.begin(), example.ids.end());
  targets_.insert(targets_.end(), example.targets.begin(), example.targets.end());
  offsets_.push_back(static_cast<int64_t>(ids_.size()));
  SNUG_CHECK(size() == 1 || has_sources() != example.source.empty(), "all examples have a source or none");
  sources_.insert(sources_.end(), example.source.begin(), example.source.end());
  source_offsets_.push_back(static_cast<int64_t>(sources_.size()));
  total_targets_ += static_cast<int64_t>(example.targets.size()) -
                    std::count(example.targets.begin(), example.targets.end(), kNoTarget);
}

int64_t Dataset::length_tokens(int64_t index) const {
  SNUG_CHECK(index >= 0 && index < size(), "no such example");
  return offsets_[static_cast<size_t>(index) + 1] - offsets_[static_cast<size_t>(index)];
}

std::span<const int32_t> Dataset::ids(int64_t index) const {
  return std::span(ids_).subspan(static_cast<size_t>(offsets_[static_cast<size_t>(index)]),
                                 static_cast<size_t>(length_tokens(index)));
}

std::span<const int32_t> Dataset::targets(int64_t index) const {
  return std::span(targets_).subspan(static_cast<size_t>(offsets_[static_cast<size_t>(index)]),
                                     static_cast<size_t>(length_tokens(index)));
}

std::span<const int32_t> Dataset::source(int64_t index) const {
  SNUG_CHECK(index >= 0 && index < size(), "no such example");
  auto begin = static_cast<size_t>(source_offsets_[static_cast<size_t>(index)]);
  auto end = static_cast<size_t>(source_offsets_[static_cast<size_t>(index) + 1]);
  return std::span(sources_).subspan(begin, end - begin);
}

int64_t Dataset::longest_tokens() const {
  return longest_sum_tokens(1);
}

int64_t Dataset::longest_sum_tokens(int64_t count) const {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < size(); ++i) {
    lengths.push_back(length_tokens(i));
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  int64_t sum = 0;
  for (int64_t i = 0; i < std::min(count, size()); ++i) {
    sum += lengths[static_cast<size_t>(i)];
  }
  return sum;
}

}  // namespace snug
