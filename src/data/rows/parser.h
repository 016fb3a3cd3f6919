// Chunks of raw rows to rows that training can use. Broken rows are values, not exceptions: whoever reads
// decides whether one stops the run or is counted and skipped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/rows/format.h"
#include "data/rows/row.h"
#include "data/source/source.h"

namespace snug {

struct ParsedChunk {
  std::vector<DataRow> rows;
  std::vector<BadRow> bad;
};

class RowFieldReader;

// One a thread: it keeps its buffers. The result depends on the chunk and the format alone.
class RowParser {
 public:
  explicit RowParser(RowFormat format);
  ~RowParser();
  RowParser(const RowParser&) = delete;
  RowParser& operator=(const RowParser&) = delete;

  ParsedChunk parse(const RowChunk& chunk);
  const RowFormat& format() const { return format_; }

 private:
  std::string make_row(DataRow& row) const;
  std::string make_pair(DataRow& row, std::string_view prompt, std::string_view completion) const;
  std::string make_instruction(DataRow& row) const;
  std::string make_prompt_completion(DataRow& row) const;
  std::string make_from_columns(DataRow& row) const;
  std::string make_conversation(DataRow& row, std::string_view column) const;
  std::string take_string(std::string_view name, std::string& value) const;
  std::string take_text(std::string_view name, std::string& value) const;
  std::string take_optional_string(std::string_view name, std::string& value) const;
  std::string take_list(std::string_view name, Json& value) const;

  RowFormat format_;
  std::vector<PromptPart> prompt_parts_;
  std::unique_ptr<RowFieldReader> reader_;
};

// The format that the first rows of a source's first chunk have; for plain text that is `text`. Throws
// bad_input if there is none that fits, or no row that can be read.
RowFormat detect_row_format(const RowChunk& first_chunk);

// "data/train.jsonl:17: reason"
std::string describe(const BadRow& bad, const SourceFile& file);

}  // namespace snug
