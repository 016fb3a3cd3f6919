// The merging half of byte-pair encoding: which neighbouring symbols become one, and in which order.
#include "text/bpe_merges.h"

#include <fmt/format.h>

#include <queue>

#include "base/error.h"
#include "io/printable.h"

namespace snug {

namespace {

// Up to here scanning the whole word for each merge beats keeping a queue.
constexpr size_t kScanLimitSymbols = 24;

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

int32_t require_piece(const std::unordered_map<std::string, int32_t>& vocabulary, const std::string& piece,
                      size_t index, const std::string& path) {
  auto found = vocabulary.find(piece);
  if (found == vocabulary.end()) {
    throw bad_input(fmt::format(
        "{}: merge {} uses '{}', which is not in the vocabulary. The file is damaged: download it again.",
        path, index, printable(piece)));
  }
  return found->second;
}

}  // namespace

size_t BpeMerges::PairHash::operator()(uint64_t pair) const {
  uint64_t mixed = pair * 0x9E3779B97F4A7C15ULL;
  return static_cast<size_t>(mixed ^ (mixed >> 32));
}

BpeMerges::BpeMerges(std::span<const std::pair<std::string, std::string>> merges,
                     const std::unordered_map<std::string, int32_t>& vocabulary, const std::string& path) {
  merges_.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    Merge merge{static_cast<int32_t>(i), require_piece(vocabulary, left + right, i, path)};
    uint64_t key =
        pair_key(require_piece(vocabulary, left, i, path), require_piece(vocabulary, right, i, path));
    merges_[key] = merge;  // of a pair listed twice the later rank counts, as in the reference implementation
  }
}

const BpeMerges::Merge* BpeMerges::find(int32_t left, int32_t right) const {
  auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeMerges::apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() <= kScanLimitSymbols) {
    apply_by_scan(symbols);
  } else {
    apply_by_queue(symbols);
  }
}

void BpeMerges::apply_by_scan(std::vector<int32_t>& symbols) const {
  while (symbols.size() > 1) {
    const Merge* best = nullptr;
    size_t where = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge* merge = find(symbols[i], symbols[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        where = i;
      }
    }
    if (best == nullptr) {
      return;
    }
    symbols[where] = best->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

void BpeMerges::apply_by_queue(std::vector<int32_t>& symbols) const {
  constexpr int32_t kGone = -1;
  struct Candidate {
    int32_t rank;
    size_t position;
    int32_t left;
    int32_t right;
    int32_t merged;
    bool operator<(const Candidate& other) const {  // the top of the queue is the largest
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  size_t count = symbols.size();
  std::vector<size_t> previous(count);  // neighbours among the symbols that are still there
  std::vector<size_t> next(count);
  std::priority_queue<Candidate> queue;
  auto consider = [&](size_t left, size_t right) {
    if (const Merge* merge = find(symbols[left], symbols[right]); merge != nullptr) {
      queue.push({merge->rank, left, symbols[left], symbols[right], merge->merged});
    }
  };
  for (size_t i = 0; i < count; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
    if (i + 1 < count) {
      consider(i, i + 1);
    }
  }
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    size_t right = next[best.position];
    // An earlier merge may have changed either symbol; the pairs that it made are in the queue themselves.
    if (symbols[best.position] != best.left || right >= count || symbols[right] != best.right) {
      continue;
    }
    symbols[best.position] = best.merged;
    symbols[right] = kGone;
    next[best.position] = next[right];
    if (next[right] < count) {
      previous[next[right]] = best.position;
      consider(best.position, next[right]);
    }
    if (best.position > 0) {
      consider(previous[best.position], best.position);
    }
  }
  std::erase(symbols, kGone);
}

}  // namespace snug
