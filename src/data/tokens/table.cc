// Tokenized rows.
#include "data/tokens/table.h"

#include <utility>

#include "base/check.h"

namespace snug {

TokenTable::TokenTable(Contents contents, TableFacts facts)
    : contents_(std::move(contents)), facts_(std::move(facts)) {
  SNUG_CHECK(!contents_.entries.empty(), "the entry behind the last row is missing");
}

const RowEntry& TokenTable::entry(int64_t row) const {
  SNUG_CHECK(row >= 0 && row <= rows(), "no such row");
  return contents_.entries[static_cast<size_t>(row)];
}

std::span<const TokenWord> TokenTable::source(int64_t row) const {
  return contents_.words.subspan(static_cast<size_t>(entry(row).begin),
                                 static_cast<size_t>(source_length(row)));
}

std::span<const TokenWord> TokenTable::tokens(int64_t row) const {
  return contents_.words.subspan(static_cast<size_t>(entry(row).begin + source_length(row)),
                                 static_cast<size_t>(length(row)));
}

void TokenTable::release_words() const {
  if (contents_.mapped) {
    contents_.mapped->release(std::as_bytes(contents_.words));
  }
}

void TokenTableBuilder::add(const Example& example) {
  int64_t learned = example.learned_tokens();
  if (learned == 0) {
    return;
  }
  entries_.push_back({.begin = static_cast<int64_t>(words_.size()),
                      .source_tokens = static_cast<int32_t>(example.source.size()),
                      .learned_tokens = static_cast<int32_t>(learned)});
  words_.insert(words_.end(), example.source.begin(), example.source.end());
  words_.insert(words_.end(), example.tokens.begin(), example.tokens.end());
}

TokenTable TokenTableBuilder::finish(TableFacts facts) && {
  struct Owned {
    std::vector<TokenWord> words;
    std::vector<RowEntry> entries;
  };
  entries_.push_back({.begin = static_cast<int64_t>(words_.size())});
  auto owned = std::make_shared<Owned>(Owned{std::move(words_), std::move(entries_)});
  return TokenTable({.words = owned->words, .entries = owned->entries, .owner = owned}, std::move(facts));
}

}  // namespace snug
