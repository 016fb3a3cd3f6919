// One record of CSV or TSV, by RFC 4180.
#include "data/rows/csv.h"

#include <algorithm>

namespace snug {

namespace {

// A field in quotes, from after the opening one; `text` is left at what follows the closing one.
bool take_quoted(std::string_view& text, std::string& field) {
  while (true) {
    size_t quote = text.find('"');
    if (quote == std::string_view::npos) {
      return false;
    }
    field.append(text.substr(0, quote));
    text.remove_prefix(quote + 1);
    if (!text.starts_with('"')) {
      return true;
    }
    field += '"';  // two of them stand for one
    text.remove_prefix(1);
  }
}

}  // namespace

CsvRecord parse_csv_record(std::string_view text, char separator) {
  CsvRecord record;
  while (true) {
    std::string& field = record.fields.emplace_back();
    if (text.starts_with('"')) {
      text.remove_prefix(1);
      if (!take_quoted(text, field)) {
        record.problem = "a quote is opened and never closed";
        return record;
      }
      if (!text.empty() && text[0] != separator) {
        record.problem = "text follows a closing quote; a quote inside of quotes must be doubled";
        return record;
      }
    } else {
      size_t end = std::min(text.find(separator), text.size());
      field = text.substr(0, end);
      text.remove_prefix(end);
    }
    if (text.empty()) {
      return record;
    }
    text.remove_prefix(1);
  }
}

}  // namespace snug
