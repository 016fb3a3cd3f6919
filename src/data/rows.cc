// The rows of a data file, before they are tokenized: JSONL or plain text.
#include "data/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "io/json.h"
#include "io/printable.h"

namespace snug {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos;
}

// Lines without their ends, checked to be UTF-8.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path) : path_(path.string()) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      throw bad_input(fmt::format("{}: is a folder; name the data file in it.", path_));
    }
    file_.open(path, std::ios::binary);
    if (!file_) {
      throw bad_input(
          fmt::format("{}: cannot be read: {}. Check data.train_file and data.eval_file; they are "
                      "relative to the recipe's folder.",
                      path_, std::strerror(errno)));
    }
  }

  bool next(std::string& line) {
    if (!std::getline(file_, line)) {
      if (file_.bad()) {
        throw environment_error(fmt::format("{}: reading stopped after line {}.", path_, line_number_));
      }
      return false;
    }
    ++line_number_;
    if (line_number_ == 1 && line.starts_with(kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (size_t valid = valid_utf8_prefix_bytes(line); valid < line.size()) {
      throw bad_input(
          fmt::format("{}: byte {} of the line (0x{:02X}) is not UTF-8. Convert the file, for example with "
                      "iconv -f latin1 -t "
                      "utf-8.",
                      place(), valid + 1, static_cast<uint8_t>(line[valid])));
    }
    return true;
  }

  std::string place() const { return fmt::format("{}:{}", path_, line_number_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ifstream file_;
  int64_t line_number_ = 0;
};

bool has_extension(const std::filesystem::path& path, std::initializer_list<std::string_view> extensions) {
  std::string extension = path.extension().string();
  for (std::string_view known : extensions) {
    if (extension == known) {
      return true;
    }
  }
  return false;
}

// By the name, and where it says nothing, by how the text begins.
bool is_plain_text(const std::filesystem::path& path, std::string_view first_line) {
  if (has_extension(path, {".txt", ".text", ".md"})) {
    return true;
  }
  if (has_extension(path, {".jsonl", ".ndjson", ".json"})) {
    return false;
  }
  return !first_line.starts_with('{');
}

Json parse_row(const std::string& line, const std::string& place) {
  Json row;
  try {
    row = Json::parse(line);
  } catch (const Json::parse_error& error) {
    std::string remedy = "Each line must be one JSON object, such as {\"text\": \"...\"}.";
    if (line.starts_with('[')) {
      remedy = "The file seems to be one JSON list; make it one object a line with jq -c '.[]'.";
    }
    throw bad_input(
        fmt::format("{}: not valid JSON at column {}. {}", place, std::max<size_t>(error.byte, 1), remedy));
  }
  if (row.is_array()) {
    throw bad_input(
        fmt::format("{}: a JSON list where an object is needed. If the file is one list, make it one object "
                    "a line with jq -c "
                    "'.[]'.",
                    place));
  }
  if (!row.is_object()) {
    throw bad_input(fmt::format("{}: a JSON {} where an object is needed, such as {{\"text\": \"...\"}}.",
                                place, row.type_name()));
  }
  return row;
}

std::string columns_of(const Json& row) {
  std::string names;
  for (const auto& [name, value] : row.items()) {
    names += (names.empty() ? "" : ", ") + in_quotes(name, 40);
  }
  return names.empty() ? "no columns" : printable(names, 400);
}

std::optional<std::string> completion_column(const Json& row) {
  for (const char* name : {"completion", "response"}) {
    if (row.contains(name)) {
      return name;
    }
  }
  return std::nullopt;
}

std::string string_column(const Json& row, const std::string& name, const std::string& place) {
  auto found = row.find(name);
  if (found == row.end()) {
    throw bad_input(fmt::format("{}: no column \"{}\"; found {}. Rename the column, or set data.format.",
                                place, name, columns_of(row)));
  }
  if (!found->is_string()) {
    throw bad_input(fmt::format("{}: \"{}\" is a {} ({}); it must be a string.", place, name,
                                found->type_name(), printable(found->dump(), 60)));
  }
  return found->get<std::string>();
}

RowLayout layout_of_json(const Json& first_row, DataFormat wanted, const std::string& place) {
  DataFormat format = wanted;
  std::string seen;
  if (wanted == DataFormat::automatic) {
    seen = " (seen in the first row)";
    if (first_row.contains("prompt") && completion_column(first_row)) {
      format = DataFormat::prompt_completion;
    } else if (first_row.contains("text")) {
      format = DataFormat::text;
    } else {
      throw bad_input(
          fmt::format("{}: no columns that snug knows; found {}. Rows need \"text\", or \"prompt\" and "
                      "\"completion\" (or "
                      "\"response\").",
                      place, columns_of(first_row)));
    }
  }
  std::string kind = format == DataFormat::text ? "text rows" : "prompt/completion rows";
  return {.plain_text = false, .format = format, .description = kind + seen};
}

Row row_from_json(const Json& row, DataFormat format, const std::string& place) {
  if (format == DataFormat::text) {
    return {.prompt = "", .text = string_column(row, "text", place)};
  }
  return {.prompt = string_column(row, "prompt", place),
          .text = string_column(row, completion_column(row).value_or("completion"), place)};
}

void read_json_rows(LineReader& reader, std::string& line, const RowLayout& layout, const RowVisitor& visit) {
  do {
    if (!is_blank(line)) {
      std::string place = reader.place();
      visit(row_from_json(parse_row(line, place), layout.format, place), layout.format);
    }
  } while (reader.next(line));
}

void read_paragraphs(LineReader& reader, std::string& line, const RowVisitor& visit) {
  Row row;
  do {
    if (!is_blank(line)) {
      row.text += (row.text.empty() ? "" : "\n") + line;
    } else if (!row.text.empty()) {
      visit(row, DataFormat::text);
      row.text.clear();
    }
  } while (reader.next(line));
  if (!row.text.empty()) {
    visit(row, DataFormat::text);
  }
}

}  // namespace

RowLayout read_rows(const std::filesystem::path& path, DataFormat wanted, const RowVisitor& visit) {
  LineReader reader(path);
  std::string line;
  do {
    if (!reader.next(line)) {
      throw bad_input(fmt::format("{}: is empty; it needs at least one row, such as {{\"text\": \"...\"}}.",
                                  reader.path()));
    }
  } while (is_blank(line));
  if (is_plain_text(path, line)) {
    if (wanted == DataFormat::prompt_completion) {
      throw bad_input(fmt::format(
          "{}: plain text has no prompts and completions; give a .jsonl file with the columns \"prompt\" and "
          "\"completion\", or set data.format to text.",
          reader.path()));
    }
    read_paragraphs(reader, line, visit);
    return {.plain_text = true,
            .format = DataFormat::text,
            .description = "plain text, a paragraph between blank lines is an example"};
  }
  RowLayout layout = layout_of_json(parse_row(line, reader.place()), wanted, reader.place());
  read_json_rows(reader, line, layout, visit);
  return layout;
}

}  // namespace snug
