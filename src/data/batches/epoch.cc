// Order, groups and packs.
#include "data/batches/epoch.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace snug {
namespace {

// Keep the draws of each use apart from those of other users of the same seed.
constexpr uint64_t kShuffleStreams = uint64_t{0x73687566} << 32;
constexpr uint64_t kWeightStreams = uint64_t{0x77656967} << 32;
constexpr uint64_t kGroupStreams = uint64_t{0x67726f75} << 32;

// Sorting within a window keeps the order random on a larger scale. Larger windows fill packs a little
// better.
constexpr int64_t kPackWindowExamples = 4096;
constexpr int64_t kGroupWindowSteps = 50;

void shuffle(std::span<int64_t> values, Rng& rng) {
  for (size_t left = values.size(); left > 1; --left) {  // Fisher-Yates, from the end
    std::swap(values[left - 1], values[static_cast<size_t>(rng.below(left))]);
  }
}

int64_t examples_per_epoch(const Dataset::Part& part) {
  return std::max<int64_t>(std::llround(part.weight * static_cast<double>(part.end - part.first)),
                           part.end > part.first ? 1 : 0);
}

// The examples of an epoch before they are shuffled.
std::vector<int64_t> weighted_examples(const Dataset& dataset, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> examples;
  examples.reserve(static_cast<size_t>(examples_per_epoch(dataset)));
  uint64_t stream = kWeightStreams + static_cast<uint64_t>(epoch) * dataset.parts().size();
  for (const Dataset::Part& part : dataset.parts()) {
    int64_t count = part.end - part.first;
    int64_t left = examples_per_epoch(part);
    for (; left >= count && count > 0; left -= count) {
      size_t old_size = examples.size();
      examples.resize(old_size + static_cast<size_t>(count));
      std::iota(examples.begin() + static_cast<std::ptrdiff_t>(old_size), examples.end(), part.first);
    }
    Rng rng(seed, stream++);
    if (left > 0) {  // a random choice for what is less than all
      std::vector<int64_t> all(static_cast<size_t>(count));
      std::iota(all.begin(), all.end(), part.first);
      shuffle(all, rng);
      examples.insert(examples.end(), all.begin(), all.begin() + left);
    }
  }
  return examples;
}

std::vector<int64_t> ordered_examples(const Dataset& dataset, const BatchOptions& options, int64_t epoch) {
  std::vector<int64_t> examples = weighted_examples(dataset, options.seed, epoch);
  if (options.shuffle) {
    Rng rng(options.seed, kShuffleStreams + static_cast<uint64_t>(epoch));
    shuffle(examples, rng);
  }
  return examples;
}

int64_t all_tokens(const Dataset& dataset, int64_t example) {
  return dataset.length_tokens(example) + dataset.source_length_tokens(example);
}

void sort_longest_first(std::span<int64_t> examples, const Dataset& dataset) {
  std::vector<std::pair<int64_t, int64_t>> keyed;
  keyed.reserve(examples.size());
  for (int64_t example : examples) {
    keyed.emplace_back(-all_tokens(dataset, example), example);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(keyed.begin(), keyed.end(), examples.begin(), [](const auto& key) { return key.second; });
}

// Sorts each window by length, then shuffles the windows' steps: neighbours are of a length, and long steps
// stand anywhere.
void group_by_length(EpochPieces& epoch, const Dataset& dataset, const BatchOptions& options,
                     int64_t epoch_index) {
  int64_t step = options.effective_batch;
  int64_t window = step * kGroupWindowSteps;
  Rng rng(options.seed, kGroupStreams + static_cast<uint64_t>(epoch_index));
  std::vector<int64_t> sorted;
  auto total = static_cast<int64_t>(epoch.examples.size());
  for (int64_t first = 0; first < total; first += window) {
    std::span<int64_t> part =
        std::span(epoch.examples)
            .subspan(static_cast<size_t>(first), static_cast<size_t>(std::min(window, total - first)));
    sort_longest_first(part, dataset);
    sorted.assign(part.begin(), part.end());
    int64_t whole_steps = std::ssize(part) / step;  // a smaller last step stays last
    std::vector<int64_t> order(static_cast<size_t>(whole_steps));
    std::iota(order.begin(), order.end(), int64_t{0});
    shuffle(order, rng);
    for (int64_t i = 0; i < whole_steps; ++i) {
      std::copy_n(sorted.begin() + order[static_cast<size_t>(i)] * step, step, part.begin() + i * step);
    }
  }
}

// First-fit decreasing within windows: longest first, each into the first pack with room for it.
class Packer {
 public:
  Packer(const Dataset& dataset, const BatchOptions& options) : dataset_(dataset), options_(options) {}

  EpochPieces pack(std::vector<int64_t> examples, int64_t epoch_index) {
    EpochPieces epoch;
    epoch.examples.reserve(examples.size());
    auto total = static_cast<int64_t>(examples.size());
    Rng rng(options_.seed, kGroupStreams + static_cast<uint64_t>(epoch_index));
    for (int64_t first = 0; first < total; first += kPackWindowExamples) {
      std::span<int64_t> window = std::span(examples).subspan(
          static_cast<size_t>(first), static_cast<size_t>(std::min(kPackWindowExamples, total - first)));
      sort_longest_first(window, dataset_);
      pack_window(window);
      bool last = first + kPackWindowExamples >= total;
      close_packs(epoch, rng, last);
    }
    return epoch;
  }

 private:
  struct Pack {
    std::vector<int64_t> examples;
    int64_t tokens_left = 0;
    int64_t source_tokens_left = 0;
  };

  void pack_window(std::span<const int64_t> window) {
    size_t first_open = 0;  // packs before it are full
    for (int64_t example : window) {
      int64_t tokens = dataset_.length_tokens(example);
      int64_t source_tokens = dataset_.source_length_tokens(example);
      while (first_open < packs_.size() && packs_[first_open].tokens_left == 0) {
        ++first_open;
      }
      auto found = std::find_if(
          packs_.begin() + static_cast<std::ptrdiff_t>(first_open), packs_.end(), [&](const Pack& pack) {
            return pack.tokens_left >= tokens && pack.source_tokens_left >= source_tokens &&
                   std::ssize(pack.examples) < options_.packed_sequences;
          });
      if (found == packs_.end()) {
        packs_.push_back({{}, options_.packed_tokens, options_.packed_source_tokens});
        found = packs_.end() - 1;
      }
      SNUG_CHECK(found->tokens_left >= tokens && found->source_tokens_left >= source_tokens,
                 "an example is no longer than a pack");
      found->examples.push_back(example);
      found->tokens_left -= tokens;
      found->source_tokens_left -= source_tokens;
    }
  }

  // The emptiest pack is kept open for the next window, so that a window's rest costs nothing.
  void close_packs(EpochPieces& epoch, Rng& rng, bool last) {
    Pack open;
    if (!last) {
      auto emptiest = std::max_element(packs_.begin(), packs_.end(), [](const Pack& a, const Pack& b) {
        return a.tokens_left < b.tokens_left;
      });
      std::swap(*emptiest, packs_.back());
      open = std::move(packs_.back());
      packs_.pop_back();
    }
    std::vector<int64_t> order(packs_.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    shuffle(order, rng);  // else every window would begin with its longest
    for (int64_t index : order) {
      const std::vector<int64_t>& examples = packs_[static_cast<size_t>(index)].examples;
      epoch.examples.insert(epoch.examples.end(), examples.begin(), examples.end());
      epoch.begins.push_back(static_cast<int64_t>(epoch.examples.size()));
    }
    packs_.clear();
    if (!last) {
      packs_.push_back(std::move(open));
    }
  }

  const Dataset& dataset_;
  const BatchOptions& options_;
  std::vector<Pack> packs_;
};

}  // namespace

std::span<const int64_t> EpochPieces::pieces(int64_t first, int64_t end) const {
  SNUG_CHECK(first >= 0 && first <= end && end <= size(), "no such piece");
  int64_t begin = begins[static_cast<size_t>(first)];
  int64_t count = begins[static_cast<size_t>(end)] - begin;
  return std::span(examples).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}

std::vector<int64_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  Rng rng(seed, kShuffleStreams + static_cast<uint64_t>(epoch));
  shuffle(order, rng);
  return order;
}

int64_t examples_per_epoch(const Dataset& dataset) {
  int64_t total = 0;
  for (const Dataset::Part& part : dataset.parts()) {
    total += examples_per_epoch(part);
  }
  return total;
}

EpochPieces make_epoch(const Dataset& dataset, const BatchOptions& options, int64_t epoch) {
  std::vector<int64_t> examples = ordered_examples(dataset, options, epoch);
  if (options.batching == Batching::packed) {
    return Packer(dataset, options).pack(std::move(examples), epoch);
  }
  EpochPieces pieces;
  pieces.examples = std::move(examples);
  if (options.batching == Batching::grouped) {
    group_by_length(pieces, dataset, options, epoch);
  }
  pieces.begins.resize(pieces.examples.size() + 1);
  std::iota(pieces.begins.begin(), pieces.begins.end(), int64_t{0});
  return pieces;
}

}  // namespace snug
