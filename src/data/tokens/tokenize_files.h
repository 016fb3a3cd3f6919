// From data files to a cache of tokens: chunks of rows, each parsed and encoded by one of the threads, and
// written in the files' order. Memory does not grow with the files, but for 24 bytes a row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/rows/encoder.h"
#include "data/rows/format.h"
#include "data/tokens/cache.h"
#include "recipe/recipe.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

// What is being done, and how far it is.
struct DataProgress {
  std::string stage;  // "tokenizing train.jsonl"
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
  int64_t rows = 0;
};
using DataObserver = std::function<void(const DataProgress&)>;

struct TokenizeOptions {
  DataFormat format = DataFormat::automatic;
  RowColumns columns = {};  // used if it names a completion
  EncodingOptions encoding = {};
  std::string chat_template = {};           // as in the recipe
  std::filesystem::path model_folder = {};  // which may bring a chat template
  OnBadRow on_bad_row = OnBadRow::stop;
  int64_t max_rows = 0;  // 0: all
};

// Adds the rows to the writer and returns what was seen; finishing it is left to the caller. Throws bad_input
// with file and line for rows that cannot be used (unless they are to be skipped), and if there is nothing to
// learn in any of them.
TableFacts tokenize_files(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                          const TokenizeOptions& options, TokenCacheWriter& writer,
                          const DataObserver& observer);

// What stops a run where bad rows are not to be skipped.
Error bad_row_error(const std::string& place_and_reason);

// "train.jsonl", or "train.jsonl and 3 more files".
std::string name_of_files(const std::vector<std::filesystem::path>& files);

}  // namespace snug
