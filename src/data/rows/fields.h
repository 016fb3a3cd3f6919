// A row as names and values, read from JSON or CSV, before anything is made of it.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/rows/csv.h"
#include "data/source/source.h"
#include "io/json.h"

namespace snug {

enum class FieldType : uint8_t { null, boolean, number, string, list, object };

struct RowField {
  std::string_view name;
  FieldType type = FieldType::null;
  std::string_view text;           // of a string
  simdjson::dom::element element;  // of a list or an object
};

std::string_view describe(FieldType type);

// A value of a row as a document; nothing if it is nested too deeply.
std::optional<Json> to_json(const simdjson::dom::element& element);

// Reads rows one after the other; a row's fields are good until the next is read. One a thread.
class RowFieldReader {
 public:
  // False, with the reason, if the row is broken.
  bool read(const RowChunk& chunk, size_t row, std::string& reason);
  const std::vector<RowField>& fields() const { return fields_; }
  // Null if there is no such column; the last one, if there are several.
  const RowField* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  bool read_json(std::string_view row, std::string& reason);
  bool read_record(const RowChunk& chunk, std::string_view row, std::string& reason);

  simdjson::dom::parser parser_;
  CsvRecord record_;
  std::string text_;
  std::vector<RowField> fields_;
};

}  // namespace snug
