// A table of tokens in a file: written once, as a stream, then read row by row. The file is named after
// everything that it was made from, and appears under its name only when it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens/block_list.h"
#include "data/tokens/example.h"
#include "data/tokens/table.h"
#include "data/tokens/table_facts.h"
#include "io/atomic_file.h"

namespace snug {

class TokenCacheWriter {
 public:
  explicit TokenCacheWriter(const std::filesystem::path& path) : file_(path) {}

  // False if there is nothing to learn in it, and it was left out.
  bool add(const Example& example);
  // For a row that cannot be used: those behind it keep their numbers.
  void skip();
  int64_t rows() const { return static_cast<int64_t>(entries_.size()); }
  // Counts the duplicates too.
  void finish(TableFacts facts);

 private:
  void flush();
  Finding find_duplicates() const;

  AtomicFile file_;
  std::vector<TokenWord> pending_;  // not yet written
  int64_t written_words_ = 0;
  BlockList<RowEntry> entries_;
  BlockList<uint64_t> hashes_;  // of each row's words, and a mark for those left out
};

// Nothing if there is no such file, or it is not whole or not of this program's making: it is then to be made
// (again).
std::optional<TokenTable> open_token_cache(const std::filesystem::path& path);

// Held while a cache is built in a folder, so that a second run waits for the first instead of doing the same
// work. The system lets go of it whatever happens to the process.
class BuildLock {
 public:
  // Calls `on_wait` once if it has to wait. On file systems without locks it does nothing: two runs then
  // build the same file, and either is good.
  BuildLock(const std::filesystem::path& folder, const std::function<void()>& on_wait);
  ~BuildLock();
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace snug
