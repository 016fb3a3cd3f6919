// Finds where rows begin and end in the bytes of a data file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/source.h"

namespace snug {

// What a scan found: whole rows, and how many bytes are done with.
struct ScanResult {
  std::vector<RowSpan> rows;  // lines counted from the text's first, which is 0
  size_t used_bytes = 0;
  int64_t used_lines = 0;  // line ends among the bytes that are done with
};

class RowScanner {
 public:
  virtual ~RowScanner() = default;
  RowScanner(const RowScanner&) = delete;
  RowScanner& operator=(const RowScanner&) = delete;

  // `text` begins where the last scan's used bytes ended. A row that goes on beyond the text is left for the
  // next time, unless `is_end`: then no more text comes, and what is there is the last row.
  virtual ScanResult scan(std::string_view text, bool is_end) = 0;
  // Why the file may not end here; "" if it may.
  virtual std::string problem_at_end() const { return ""; }

 protected:
  RowScanner() = default;
};

std::unique_ptr<RowScanner> make_row_scanner(FileKind kind);

}  // namespace snug
