// One record of CSV or TSV, by RFC 4180.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snug {

struct CsvRecord {
  std::vector<std::string> fields;
  std::string problem;  // "" if the record is well formed
};

// `text` is the record without its line end.
CsvRecord parse_csv_record(std::string_view text, char separator);

}  // namespace snug
