// Unigram: of all ways to cut a word into pieces, the one whose scores add up to the most.
#include "text/tokenizer/unigram_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

// How much worse an unknown character is than the worst piece.
constexpr double kUnknownPenalty = 10;

}  // namespace

UnigramModel::UnigramModel(const TokenizerFile& file) : path_(file.path) {
  std::vector<std::pair<std::string, int32_t>> entries;
  double worst = std::numeric_limits<double>::infinity();
  for (const auto& [piece, score] : file.scored_pieces) {
    entries.emplace_back(piece, static_cast<int32_t>(entries.size()));
    scores_.push_back(score);
    worst = std::min(worst, score);
  }
  trie_ = PrefixTrie(std::move(entries));
  unknown_score_ = worst - kUnknownPenalty;
  int64_t unknown = json_integer(file.model(), "unk_id", kNoId, file.path);
  if (unknown < kNoId || unknown >= static_cast<int64_t>(scores_.size())) {
    throw bad_input(fmt::format("{}: model.unk_id is {}, but the vocabulary has {} entries.", file.path,
                                unknown, scores_.size()));
  }
  unknown_id_ = static_cast<int32_t>(unknown);
  byte_fallback_ = json_bool(file.model(), "byte_fallback", false, file.path);
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    auto found = file.vocabulary.find(fmt::format("<0x{:02X}>", byte));
    byte_ids_[byte] = found == file.vocabulary.end() ? kNoId : found->second;
  }
}

void UnigramModel::encode_word(std::string_view word, EncodeScratch& scratch,
                               std::vector<int32_t>& ids) const {
  if (word.size() > WordCache::kMaxWordBytes) {
    cut_word(word, scratch, ids);
    return;
  }
  WordCache::Entry& entry = scratch.cache.find(word);
  if (entry.count >= 0) {
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return;
  }
  size_t before = ids.size();
  cut_word(word, scratch, ids);
  if (size_t count = ids.size() - before; count <= WordCache::kMaxIds) {
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids.begin());
    entry.count = static_cast<int32_t>(count);
  }
}

// Fills, for every place where a character ends, where the last piece of the best path to it starts and its
// id (scratch.previous and scratch.symbols). Of paths with equal scores the one found first stays.
void UnigramModel::find_best_path(std::string_view word, EncodeScratch& scratch) const {
  constexpr double kUnreached = -std::numeric_limits<double>::infinity();
  std::vector<double>& best = scratch.scores;
  best.assign(word.size() + 1, kUnreached);
  scratch.previous.resize(word.size() + 1);
  scratch.symbols.resize(word.size() + 1);
  best[0] = 0;
  for (size_t start = 0; start < word.size();) {
    size_t character_bytes = utf8_length_bytes(word[start]);
    bool whole_character = false;
    auto offer = [&](size_t length_bytes, int32_t id, double score) {
      double total = best[start] + score;
      if (total > best[start + length_bytes] || best[start + length_bytes] == kUnreached) {
        best[start + length_bytes] = total;
        scratch.previous[start + length_bytes] = static_cast<uint32_t>(start);
        scratch.symbols[start + length_bytes] = id;
      }
    };
    trie_.visit_prefixes(word.substr(start), [&](size_t length_bytes, int32_t id) {
      whole_character = whole_character || length_bytes == character_bytes;
      offer(length_bytes, id, scores_[static_cast<size_t>(id)]);
    });
    if (!whole_character) {
      offer(character_bytes, kNoId, unknown_score_);
    }
    start += character_bytes;
  }
}

// Neighbouring unknown characters are one token, or their bytes.
void UnigramModel::append_unknown(std::string_view stretch, std::vector<int32_t>& ids) const {
  if (int32_t whole = trie_.find(stretch); whole != PrefixTrie::kNone) {
    ids.push_back(whole);
    return;
  }
  bool as_bytes = byte_fallback_ && std::all_of(stretch.begin(), stretch.end(), [&](char byte) {
                    return byte_ids_[static_cast<uint8_t>(byte)] != kNoId;
                  });
  if (as_bytes) {
    for (auto byte = stretch.rbegin(); byte != stretch.rend(); ++byte) {  // the caller builds from the end
      ids.push_back(byte_ids_[static_cast<uint8_t>(*byte)]);
    }
    return;
  }
  if (unknown_id_ == kNoId) {
    throw bad_input(
        fmt::format("{}: the text holds a character that is not in the vocabulary, and model.unk_id names no "
                    "token for it.",
                    path_));
  }
  ids.push_back(unknown_id_);
}

void UnigramModel::cut_word(std::string_view word, EncodeScratch& scratch, std::vector<int32_t>& ids) const {
  find_best_path(word, scratch);
  size_t before = ids.size();
  size_t end = word.size();
  while (end > 0) {
    size_t start = scratch.previous[end];
    int32_t id = scratch.symbols[end];
    bool unknown = id == kNoId || id == unknown_id_;
    if (!unknown) {
      ids.push_back(id);
    } else {
      size_t stretch_end = end;
      while (start > 0 && (scratch.symbols[start] == kNoId || scratch.symbols[start] == unknown_id_)) {
        start = scratch.previous[start];
      }
      append_unknown(word.substr(start, stretch_end - start), ids);
    }
    end = start;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
}

}  // namespace snug
