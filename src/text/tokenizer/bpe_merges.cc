// The merging half of byte-pair encoding: which neighbouring symbols become one, and in which order.
#include "text/tokenizer/bpe_merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "base/check.h"
#include "base/error.h"
#include "io/printable.h"

namespace snug {

namespace {

// Up to here scanning all ranks for each merge beats keeping a queue.
constexpr size_t kScanLimitSymbols = 48;
constexpr uint32_t kNone = UINT32_MAX;

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

uint64_t mix(uint64_t pair) {
  uint64_t mixed = pair * 0x9E3779B97F4A7C15ULL;
  return mixed ^ (mixed >> 32);
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

BpeMerges::BpeMerges(std::span<const std::pair<std::string, std::string>> merges,
                     const std::unordered_map<std::string, int32_t>& vocabulary, const std::string& path) {
  slots_.resize(std::bit_ceil(merges.size() * 2 + 2));
  mask_ = slots_.size() - 1;
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    uint64_t pair =
        pair_key(require_piece(vocabulary, left, i, path), require_piece(vocabulary, right, i, path));
    insert(pair, static_cast<uint32_t>(i), require_piece(vocabulary, left + right, i, path));
  }
}

// Of a pair listed twice the later rank counts, as in the reference implementation.
void BpeMerges::insert(uint64_t pair, uint32_t rank, int32_t merged) {
  uint64_t index = mix(pair) & mask_;
  while (slots_[index].pair != UINT64_MAX && slots_[index].pair != pair) {
    index = (index + 1) & mask_;
  }
  slots_[index] = {.pair = pair, .rank = rank, .merged = merged};
}

// The slot of the pair, or an empty one with kNoRank.
const BpeMerges::Slot& BpeMerges::find(int32_t left, int32_t right) const {
  uint64_t pair = pair_key(left, right);
  uint64_t index = mix(pair) & mask_;
  while (slots_[index].pair != pair && slots_[index].pair != UINT64_MAX) {
    index = (index + 1) & mask_;
  }
  return slots_[index];
}

void BpeMerges::apply(EncodeScratch& scratch) const {
  if (scratch.symbols.size() <= kScanLimitSymbols) {
    apply_by_scan(scratch.symbols);
  } else {
    apply_by_queue(scratch);
  }
}

void BpeMerges::apply_by_scan(std::vector<int32_t>& symbols) const {
  std::array<uint32_t, kScanLimitSymbols> ranks;  // of each symbol with the next one
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) {
    ranks[i] = find(symbols[i], symbols[i + 1]).rank;
  }
  while (count > 1) {
    auto end = ranks.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    auto best = std::min_element(ranks.begin(), end);
    if (*best == kNoRank) {
      break;
    }
    size_t where = static_cast<size_t>(best - ranks.begin());
    symbols[where] = find(symbols[where], symbols[where + 1]).merged;
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 2,
              symbols.begin() + static_cast<std::ptrdiff_t>(count),
              symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
    std::copy(best + 1, end, best);
    --count;
    if (where + 1 < count) {
      ranks[where] = find(symbols[where], symbols[where + 1]).rank;
    }
    if (where > 0) {
      ranks[where - 1] = find(symbols[where - 1], symbols[where]).rank;
    }
  }
  symbols.resize(count);
}

void BpeMerges::apply_by_queue(EncodeScratch& scratch) const {
  constexpr int32_t kGone = -1;
  std::vector<int32_t>& symbols = scratch.symbols;
  std::vector<uint32_t>& previous = scratch.previous;
  std::vector<uint32_t>& next = scratch.next;
  std::vector<uint64_t>& queue = scratch.queue;  // rank above position: the smallest is the next merge
  SNUG_CHECK(symbols.size() < kNone, "a word of four thousand million symbols");
  auto count = static_cast<uint32_t>(symbols.size());
  previous.resize(count);
  next.resize(count);
  queue.clear();
  auto consider = [&](uint32_t left, uint32_t right) {
    uint32_t rank = find(symbols[left], symbols[right]).rank;
    if (rank != kNoRank) {
      queue.push_back((static_cast<uint64_t>(rank) << 32) | left);
      return true;
    }
    return false;
  };
  for (uint32_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == count ? kNone : i + 1;
    if (i + 1 < count) {
      consider(i, i + 1);
    }
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>{});
  auto push = [&](uint32_t left, uint32_t right) {
    if (consider(left, right)) {
      std::push_heap(queue.begin(), queue.end(), std::greater<>{});
    }
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>{});
    auto rank = static_cast<uint32_t>(queue.back() >> 32);
    auto left = static_cast<uint32_t>(queue.back());
    queue.pop_back();
    uint32_t right = symbols[left] == kGone ? kNone : next[left];
    // An earlier merge may have changed either symbol; the pairs that it made are in the queue themselves.
    if (right == kNone) {
      continue;
    }
    const Slot& slot = find(symbols[left], symbols[right]);
    if (slot.rank != rank) {
      continue;
    }
    symbols[left] = slot.merged;
    symbols[right] = kGone;
    next[left] = next[right];
    if (next[left] != kNone) {
      previous[next[left]] = left;
      push(left, next[left]);
    }
    if (previous[left] != kNone) {
      push(previous[left], left);
    }
  }
  std::erase(symbols, kGone);
}

}  // namespace snug
