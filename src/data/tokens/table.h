// Tokenized rows, whole, in the files' order: laid end to end in memory, or in a mapped file. Nothing here
// depends on a length limit, so that another max_length needs no other table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/tokens/example.h"
#include "data/tokens/table_facts.h"
#include "io/mapped_file.h"

namespace snug {

// Where a row lies. Also its form on disk.
struct RowEntry {
  int64_t begin = 0;           // of its first word; it ends where the next begins
  int32_t source_tokens = 0;   // those of an encoder come first
  int32_t learned_tokens = 0;  // at least 1
};
static_assert(sizeof(RowEntry) == 16);

class TokenTable {
 public:
  // The last entry only says where the last row ends. `mapped` keeps the memory; null for memory of `owner`.
  struct Contents {
    std::span<const TokenWord> words;
    std::span<const RowEntry> entries;  // (rows + 1)
    std::shared_ptr<const MappedFile> mapped = nullptr;
    std::shared_ptr<const void> owner = nullptr;
  };
  TokenTable(Contents contents, TableFacts facts);

  const TableFacts& facts() const { return facts_; }
  int64_t rows() const { return static_cast<int64_t>(contents_.entries.size()) - 1; }
  int64_t words() const { return static_cast<int64_t>(contents_.words.size()); }
  int64_t source_length(int64_t row) const { return entry(row).source_tokens; }
  int64_t length(int64_t row) const { return entry(row + 1).begin - entry(row).begin - source_length(row); }
  int64_t learned(int64_t row) const { return entry(row).learned_tokens; }
  std::span<const TokenWord> source(int64_t row) const;
  std::span<const TokenWord> tokens(int64_t row) const;

  // Lets go of pages of a mapped file that were read: they come back when they are needed.
  void release_words() const;

 private:
  const RowEntry& entry(int64_t row) const;

  Contents contents_;
  TableFacts facts_;
};

// A table in memory, for data that is made and not read.
class TokenTableBuilder {
 public:
  // Nothing, if there is nothing to learn in it.
  void add(const Example& example);
  TokenTable finish(TableFacts facts) &&;

 private:
  std::vector<TokenWord> words_;
  std::vector<RowEntry> entries_;
};

}  // namespace snug
