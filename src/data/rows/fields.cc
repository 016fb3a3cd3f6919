// A row as names and values, read from JSON or CSV.
#include "data/rows/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "io/printable.h"

namespace snug {

namespace {

constexpr int kMaxDepth = 100;

FieldType type_of(const simdjson::dom::element& element) {
  switch (element.type()) {
    case simdjson::dom::element_type::ARRAY:
      return FieldType::list;
    case simdjson::dom::element_type::OBJECT:
      return FieldType::object;
    case simdjson::dom::element_type::STRING:
      return FieldType::string;
    case simdjson::dom::element_type::BOOL:
      return FieldType::boolean;
    case simdjson::dom::element_type::NULL_VALUE:
      return FieldType::null;
    default:
      return FieldType::number;
  }
}

std::string_view string_of(const simdjson::dom::element& element) {
  std::string_view text;
  if (element.get(text) != simdjson::SUCCESS) {
    text = {};
  }
  return text;
}

bool convert(const simdjson::dom::element& element, Json& result, int depth) {
  if (depth > kMaxDepth) {
    return false;
  }
  switch (element.type()) {
    case simdjson::dom::element_type::ARRAY: {
      simdjson::dom::array list(element);
      result = Json::array();
      auto& items = result.get_ref<Json::array_t&>();
      items.reserve(list.size());
      for (simdjson::dom::element item : list) {
        if (!convert(item, items.emplace_back(), depth + 1)) {
          return false;
        }
      }
      return true;
    }
    case simdjson::dom::element_type::OBJECT: {
      simdjson::dom::object object(element);
      result = Json::object();
      // Not operator[], which looks through all keys before it; and with the room reserved, because a vector
      // with constant keys copies its values when it grows.
      auto& members = result.get_ref<Json::object_t&>();
      members.reserve(object.size());
      for (simdjson::dom::key_value_pair member : object) {
        if (!convert(member.value, members.emplace_back(std::string(member.key), Json()).second, depth + 1)) {
          return false;
        }
      }
      return true;
    }
    case simdjson::dom::element_type::STRING:
      result = std::string(string_of(element));
      return true;
    case simdjson::dom::element_type::INT64:
      result = int64_t(element);
      return true;
    case simdjson::dom::element_type::UINT64:
      result = uint64_t(element);
      return true;
    case simdjson::dom::element_type::DOUBLE:
      result = double(element);
      return true;
    case simdjson::dom::element_type::BOOL:
      result = bool(element);
      return true;
    default:
      result = nullptr;
      return true;
  }
}

// simdjson does not say where a row is broken; a slower parser does, and broken rows are few.
std::string why_not_json(std::string_view row, simdjson::error_code error) {
  if (size_t valid = valid_utf8_prefix_bytes(row); valid < row.size()) {
    return fmt::format(
        "byte {} of the row (0x{:02X}) is not UTF-8; convert the file, for example with iconv -f "
        "latin1 -t utf-8",
        valid + 1, static_cast<uint8_t>(row[valid]));
  }
  if (error == simdjson::DEPTH_ERROR) {
    return "not valid JSON: it is nested too deeply";
  }
  constexpr size_t kMaxLocated = size_t{1} << 20;
  std::string column;
  if (row.size() <= kMaxLocated) {
    try {
      Json ignored = Json::parse(row);
    } catch (const Json::parse_error& problem) {
      column = fmt::format(" at column {}", std::max<size_t>(problem.byte, 1));
    } catch (const Json::exception&) {
      column = "";
    }
  }
  return fmt::format("not valid JSON{}; a row must be one JSON object, such as {{\"text\": \"...\"}}",
                     column);
}

std::string why_not_utf8(std::string_view row) {
  size_t valid = valid_utf8_prefix_bytes(row);
  return fmt::format(
      "byte {} of the row (0x{:02X}) is not UTF-8; convert the file, for example with iconv -f latin1 -t "
      "utf-8",
      valid + 1, static_cast<uint8_t>(row[valid]));
}

}  // namespace

std::string_view describe(FieldType type) {
  constexpr std::string_view kNames[] = {"null", "a boolean", "a number", "a string", "a list", "an object"};
  return kNames[static_cast<size_t>(type)];
}

std::optional<Json> to_json(const simdjson::dom::element& element) {
  Json result;
  return convert(element, result, 1) ? std::optional(std::move(result)) : std::nullopt;
}

bool RowFieldReader::read(const RowChunk& chunk, size_t row, std::string& reason) {
  fields_.clear();
  std::string_view text = chunk.row(row);
  switch (chunk.file->kind) {
    case FileKind::json_lines:
    case FileKind::json_array:
      return read_json(text, reason);
    case FileKind::csv:
    case FileKind::tsv:
      return read_record(chunk, text, reason);
    default:
      break;
  }
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    reason = why_not_utf8(text);
    return false;
  }
  fields_.push_back({"text", FieldType::string, text, {}});
  if (text.find('\r') !=
      std::string_view::npos) {  // a paragraph's lines end alike, whatever system wrote them
    text_.clear();
    for (size_t end = text.find("\r\n"); end != std::string_view::npos; end = text.find("\r\n")) {
      text_.append(text.substr(0, end)).append("\n");
      text.remove_prefix(end + 2);
    }
    text_ += text;
    fields_[0].text = text_;
  }
  return true;
}

bool RowFieldReader::read_json(std::string_view row, std::string& reason) {
  simdjson::dom::element document;
  // The bytes after the row are the chunk's, so the parser may look at them.
  simdjson::error_code error = parser_.parse(row.data(), row.size(), false).get(document);
  if (error != simdjson::SUCCESS) {
    reason = why_not_json(row, error);
    return false;
  }
  simdjson::dom::object object;
  if (document.get(object) != simdjson::SUCCESS) {
    reason = fmt::format("{} where a JSON object is needed, such as {{\"text\": \"...\"}}",
                         describe(type_of(document)));
    return false;
  }
  for (simdjson::dom::key_value_pair member : object) {
    FieldType type = type_of(member.value);
    fields_.push_back({member.key, type,
                       type == FieldType::string ? string_of(member.value) : std::string_view(),
                       member.value});
  }
  return true;
}

bool RowFieldReader::read_record(const RowChunk& chunk, std::string_view row, std::string& reason) {
  if (!simdjson::validate_utf8(row.data(), row.size())) {
    reason = why_not_utf8(row);
    return false;
  }
  record_ = parse_csv_record(row, chunk.file->kind == FileKind::csv ? ',' : '\t');
  const std::vector<std::string>& columns = chunk.file->columns;
  if (!record_.problem.empty()) {
    reason = record_.problem;
    return false;
  }
  if (record_.fields.size() != columns.size()) {
    reason = fmt::format("{} fields where the header names {}", record_.fields.size(), columns.size());
    return false;
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    fields_.push_back({columns[i], FieldType::string, record_.fields[i], {}});
  }
  return true;
}

const RowField* RowFieldReader::find(std::string_view name) const {
  auto found = std::find_if(fields_.rbegin(), fields_.rend(),
                            [&](const RowField& field) { return field.name == name; });
  return found == fields_.rend() ? nullptr : &*found;
}

std::vector<std::string> RowFieldReader::names() const {
  std::vector<std::string> result;
  for (const RowField& field : fields_) {
    result.emplace_back(field.name);
  }
  return result;
}

}  // namespace snug
