// Tokenized rows, whole, in the files' order: laid end to end in memory, or in a file. Nothing here depends
// on a length limit, so that another max_length needs no other table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/tokens/example.h"
#include "data/tokens/table_facts.h"
#include "io/random_access_file.h"

namespace snug {

// Where a row lies. Also its form on disk.
struct RowEntry {
  int64_t begin = 0;           // of its first word; it ends where the next begins
  int32_t source_tokens = 0;   // those of an encoder come first
  int32_t learned_tokens = 0;  // at least 1
  uint64_t hash = 0;           // of its words: rows that say the same have the same
};
static_assert(sizeof(RowEntry) == 24);

class TokenTable {
 public:
  // The last entry only says where the last row ends. Words are in memory, or at an offset of a file: they
  // are read when they are asked for, so that the memory that a table takes does not grow with them.
  struct Contents {
    std::vector<RowEntry> entries;  // (rows + 1)
    std::vector<TokenWord> words = {};
    std::shared_ptr<const RandomAccessFile> file = nullptr;
    int64_t words_offset_bytes = 0;
  };
  TokenTable(Contents contents, TableFacts facts);

  const TableFacts& facts() const { return facts_; }
  // The template is the same where tokens are found again; where it lies need not be.
  void set_chat_template_name(std::string name) { facts_.chat_template = std::move(name); }
  int64_t rows() const { return static_cast<int64_t>(contents_.entries.size()) - 1; }
  int64_t words() const { return contents_.entries.back().begin; }
  int64_t source_length(int64_t row) const { return entry(row).source_tokens; }
  int64_t length(int64_t row) const { return entry(row + 1).begin - entry(row).begin - source_length(row); }
  int64_t learned(int64_t row) const { return entry(row).learned_tokens; }
  uint64_t hash(int64_t row) const { return entry(row).hash; }

  // All of a row's, or `count` of them from `begin` on. Throw environment_error if the file is gone short.
  std::vector<TokenWord> source(int64_t row) const { return source(row, 0, source_length(row)); }
  std::vector<TokenWord> source(int64_t row, int64_t begin, int64_t count) const;
  std::vector<TokenWord> tokens(int64_t row) const { return tokens(row, 0, length(row)); }
  std::vector<TokenWord> tokens(int64_t row, int64_t begin, int64_t count) const;

 private:
  const RowEntry& entry(int64_t row) const;
  std::vector<TokenWord> read(int64_t begin, int64_t count) const;

  Contents contents_;
  TableFacts facts_;
};

uint64_t hash_of_words(const TokenWord* words, size_t count);

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
