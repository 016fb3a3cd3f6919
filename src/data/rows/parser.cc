// Chunks of raw rows to rows that training can use.
#include "data/rows/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "data/rows/fields.h"
#include "data/rows/messages.h"
#include "io/printable.h"

namespace snug {

namespace {

std::string column_names(const RowFieldReader& reader) {
  std::string names;
  for (const RowField& field : reader.fields()) {
    names += (names.empty() ? "" : ", ") + in_quotes(field.name, 40);
  }
  return names.empty() ? "no columns" : printable(names, 400);
}

std::string missing_column(std::string_view name, const RowFieldReader& reader) {
  return fmt::format("no column {}; found {}", in_quotes(name, 60), column_names(reader));
}

}  // namespace

RowParser::RowParser(RowFormat format)
    : format_(std::move(format)), reader_(std::make_unique<RowFieldReader>()) {
  if (format_.kind == RowFormatKind::columns) {
    prompt_parts_ = parse_prompt_template(format_.columns.prompt_template);
  }
}

RowParser::~RowParser() = default;

ParsedChunk RowParser::parse(const RowChunk& chunk) {
  ParsedChunk result;
  result.rows.reserve(chunk.rows.size());
  for (size_t i = 0; i < chunk.rows.size(); ++i) {
    RowPlace place = {chunk.rows[i].line, chunk.first_row + static_cast<int64_t>(i),
                      chunk.byte_offset + static_cast<int64_t>(chunk.rows[i].offset)};
    std::string problem;
    DataRow row;
    if (reader_->read(chunk, i, problem)) {
      problem = make_row(row);
    }
    if (problem.empty()) {
      row.place = place;
      result.rows.push_back(std::move(row));
    } else {
      result.bad.push_back({place, std::move(problem)});
    }
  }
  return result;
}

// Each of these returns why the row cannot be used, or "".
std::string RowParser::make_row(DataRow& row) const {
  switch (format_.kind) {
    case RowFormatKind::text:
      row.kind = RowKind::text;
      return take_string("text", row.text);
    case RowFormatKind::prompt_completion:
      return make_prompt_completion(row);
    case RowFormatKind::instruction:
      return make_instruction(row);
    case RowFormatKind::input_output:
      return make_pair(row, "input", "output");
    case RowFormatKind::messages:
      return make_conversation(row, "messages");
    case RowFormatKind::conversations:
      return make_conversation(row, "conversations");
    case RowFormatKind::columns:
      return make_from_columns(row);
  }
  return "";
}

std::string RowParser::take_string(std::string_view name, std::string& value) const {
  const RowField* field = reader_->find(name);
  if (field == nullptr) {
    return missing_column(name, *reader_);
  }
  if (field->type != FieldType::string) {
    return fmt::format("{} is {}; it must be a string", in_quotes(name, 60), describe(field->type));
  }
  value = field->text;
  return "";
}

// A string, a number as it is written, or a list of strings, a line each: what people's own columns hold.
std::string RowParser::take_text(std::string_view name, std::string& value) const {
  const RowField* field = reader_->find(name);
  std::optional<Json> document;
  if (field != nullptr && (field->type == FieldType::list || field->type == FieldType::number)) {
    document = to_json(field->element);
  }
  if (!document) {
    return take_string(name, value);
  }
  if (document->is_number()) {
    value = document->dump();
    return "";
  }
  value.clear();
  for (const Json& line : *document) {
    if (!line.is_string()) {
      return fmt::format("{} is a list with a {} in it; it must be a string, a number or a list of strings",
                         in_quotes(name, 60), line.type_name());
    }
    value += (value.empty() ? "" : "\n") + line.get<std::string>();
  }
  return "";
}

// A column that may be missing, null or empty.
std::string RowParser::take_optional_string(std::string_view name, std::string& value) const {
  const RowField* field = reader_->find(name);
  return field == nullptr || field->type == FieldType::null ? "" : take_string(name, value);
}

// A list, or the text of one: CSV has no lists.
std::string RowParser::take_list(std::string_view name, Json& value) const {
  const RowField* field = reader_->find(name);
  if (field == nullptr) {
    return missing_column(name, *reader_);
  }
  if (field->type == FieldType::string) {
    simdjson::dom::parser parser;
    simdjson::dom::element element;
    std::optional<Json> document;
    if (parser.parse(field->text.data(), field->text.size()).get(element) == simdjson::SUCCESS) {
      document = to_json(element);
    }
    if (!document || !document->is_array()) {
      return fmt::format("{} is a string that is no JSON list", in_quotes(name, 60));
    }
    value = std::move(*document);
    return "";
  }
  if (field->type != FieldType::list) {
    return fmt::format("{} is {}; it must be a list", in_quotes(name, 60), describe(field->type));
  }
  std::optional<Json> document = to_json(field->element);
  if (!document) {
    return fmt::format("{} is nested too deeply", in_quotes(name, 60));
  }
  value = std::move(*document);
  return "";
}

std::string RowParser::make_pair(DataRow& row, std::string_view prompt, std::string_view completion) const {
  row.kind = RowKind::pair;
  std::string problem = take_string(prompt, row.prompt);
  problem = problem.empty() ? take_string(completion, row.completion) : problem;
  return problem.empty() ? take_optional_string("system", row.system) : problem;
}

std::string RowParser::make_instruction(DataRow& row) const {
  std::string problem = make_pair(row, "instruction", "output");
  std::string input;
  if (problem.empty()) {
    problem = take_optional_string("input", input);
  }
  if (problem.empty() && !input.empty()) {
    row.prompt += "\n\n" + input;
  }
  return problem;
}

std::string RowParser::make_prompt_completion(DataRow& row) const {
  std::string_view completion = reader_->find("completion") == nullptr && reader_->find("response") != nullptr
                                    ? "response"
                                    : "completion";
  const RowField* prompt = reader_->find("prompt");
  if (prompt == nullptr || prompt->type != FieldType::list) {
    return make_pair(row, "prompt", completion);
  }
  row.kind = RowKind::conversation;
  Json answers;
  std::string problem = take_list("prompt", row.messages);
  problem = problem.empty() ? take_list(completion, answers) : problem;
  if (!problem.empty()) {
    return problem;
  }
  for (Json& answer : answers) {
    row.messages.push_back(std::move(answer));
  }
  return find_message_problem(row.messages);
}

std::string RowParser::make_from_columns(DataRow& row) const {
  row.kind = RowKind::pair;
  std::string value;
  for (const PromptPart& part : prompt_parts_) {
    row.prompt += part.text;
    if (!part.column.empty()) {
      std::string problem = take_text(part.column, value);
      if (!problem.empty()) {
        return problem;
      }
      row.prompt += value;
    }
  }
  std::string problem = take_text(format_.columns.completion, row.completion);
  if (problem.empty() && !format_.columns.system.empty()) {
    problem = take_optional_string(format_.columns.system, row.system);
  }
  return problem;
}

std::string RowParser::make_conversation(DataRow& row, std::string_view column) const {
  row.kind = RowKind::conversation;
  std::string problem = take_list(column, row.messages);
  if (problem.empty()) {
    problem = convert_sharegpt(row.messages);
  }
  if (problem.empty()) {
    problem = find_message_problem(row.messages);
  }
  std::string system;
  if (problem.empty()) {
    problem = take_optional_string("system", system);
  }
  if (problem.empty() && !system.empty() && row.messages[0]["role"] != "system") {
    row.messages.insert(row.messages.begin(), Json{{"role", "system"}, {"content", system}});
  }
  const RowField* tools = reader_->find("tools");
  bool has_tools = tools != nullptr && tools->type != FieldType::null &&
                   !(tools->type == FieldType::string && tools->text.empty());
  return problem.empty() && has_tools ? take_list("tools", row.tools) : problem;
}

RowFormat detect_row_format(const RowChunk& first_chunk) {
  FileKind kind = first_chunk.file->kind;
  if (kind == FileKind::paragraphs || kind == FileKind::text_lines) {
    return {RowFormatKind::text, {}, std::string(describe(kind))};
  }
  constexpr size_t kRowsLookedAt = 100;
  RowFieldReader reader;
  std::vector<std::vector<std::string>> rows;
  std::string first_problem;
  std::string problem;
  for (size_t i = 0; i < std::min(first_chunk.rows.size(), kRowsLookedAt); ++i) {
    if (reader.read(first_chunk, i, problem)) {
      rows.push_back(reader.names());
    } else if (first_problem.empty()) {
      first_problem = describe(BadRow{{first_chunk.rows[i].line, 0, 0}, problem}, *first_chunk.file);
    }
  }
  if (rows.empty() && !first_problem.empty()) {
    throw bad_input(fmt::format("{}.", first_problem));
  }
  int64_t line = first_chunk.rows.empty() ? 1 : first_chunk.rows[0].line;
  return choose_row_format(rows, fmt::format("{}:{}", first_chunk.file->path.string(), line));
}

std::string describe(const BadRow& bad, const SourceFile& file) {
  return fmt::format("{}:{}: {}", file.path.string(), bad.place.line, bad.reason);
}

}  // namespace snug
