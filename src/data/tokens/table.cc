// Tokenized rows.
#include "data/tokens/table.h"

#include <span>
#include <utility>

#include "base/check.h"
#include "io/fingerprint.h"

namespace snug {

TokenTable::TokenTable(Contents contents, TableFacts facts)
    : contents_(std::move(contents)), facts_(std::move(facts)) {
  SNUG_CHECK(!contents_.entries.empty(), "the entry behind the last row is missing");
}

const RowEntry& TokenTable::entry(int64_t row) const {
  SNUG_CHECK(row >= 0 && row <= rows(), "no such row");
  return contents_.entries[static_cast<size_t>(row)];
}

std::vector<TokenWord> TokenTable::read(int64_t begin, int64_t count) const {
  if (!contents_.file) {
    auto first = contents_.words.begin() + begin;
    return {first, first + count};
  }
  std::vector<TokenWord> words(static_cast<size_t>(count));
  contents_.file->read_at(contents_.words_offset_bytes + begin * static_cast<int64_t>(sizeof(TokenWord)),
                          std::as_writable_bytes(std::span(words)));
  return words;
}

std::vector<TokenWord> TokenTable::source(int64_t row, int64_t begin, int64_t count) const {
  SNUG_CHECK(begin >= 0 && count >= 0 && begin + count <= source_length(row),
             "a stretch of the row's source");
  return read(entry(row).begin + begin, count);
}

std::vector<TokenWord> TokenTable::tokens(int64_t row, int64_t begin, int64_t count) const {
  SNUG_CHECK(begin >= 0 && count >= 0 && begin + count <= length(row), "a stretch of the row's tokens");
  return read(entry(row).begin + source_length(row) + begin, count);
}

uint64_t hash_of_words(const TokenWord* words, size_t count) {
  return hash_bytes({reinterpret_cast<const char*>(words), count * sizeof(TokenWord)});
}

void TokenTableBuilder::add(const Example& example) {
  int64_t learned = example.learned_tokens();
  if (learned == 0) {
    return;
  }
  size_t begin = words_.size();
  words_.insert(words_.end(), example.source.begin(), example.source.end());
  words_.insert(words_.end(), example.tokens.begin(), example.tokens.end());
  entries_.push_back({.begin = static_cast<int64_t>(begin),
                      .source_tokens = static_cast<int32_t>(example.source.size()),
                      .learned_tokens = static_cast<int32_t>(learned),
                      .hash = hash_of_words(words_.data() + begin, words_.size() - begin)});
}

TokenTable TokenTableBuilder::finish(TableFacts facts) && {
  entries_.push_back({.begin = static_cast<int64_t>(words_.size())});
  return TokenTable({.entries = std::move(entries_), .words = std::move(words_)}, std::move(facts));
}

}  // namespace snug
