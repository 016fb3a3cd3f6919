// Which columns of a row mean what.
#include "data/rows/format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"

namespace snug {

namespace {

struct KnownFormat {
  RowFormatKind kind;
  std::string_view name;
  std::vector<std::vector<std::string_view>> needed;  // of each group one column at least
};

// In the order in which they are tried: what says more comes first.
const std::vector<KnownFormat>& known_formats() {
  static const std::vector<KnownFormat> kFormats = {
      {RowFormatKind::messages, "messages", {{"messages"}}},
      {RowFormatKind::conversations, "conversations", {{"conversations"}}},
      {RowFormatKind::instruction, "instruction", {{"instruction"}, {"output"}}},
      {RowFormatKind::prompt_completion, "prompt_completion", {{"prompt"}, {"completion", "response"}}},
      {RowFormatKind::input_output, "input_output", {{"input"}, {"output"}}},
      {RowFormatKind::text, "text", {{"text"}}},
  };
  return kFormats;
}

bool has(const std::vector<std::string>& columns, std::string_view name) {
  return std::find(columns.begin(), columns.end(), name) != columns.end();
}

bool fits(const KnownFormat& format, const std::vector<std::string>& columns) {
  return std::all_of(format.needed.begin(), format.needed.end(), [&](const auto& group) {
    return std::any_of(group.begin(), group.end(), [&](std::string_view name) { return has(columns, name); });
  });
}

std::string column_list(const std::vector<std::string>& columns) {
  std::string names;
  for (const std::string& name : columns) {
    names += (names.empty() ? "" : ", ") + in_quotes(name, 40);
  }
  return names.empty() ? "no columns" : printable(names, 400);
}

// The columns that made a row fit, for the description.
std::string reason_columns(const KnownFormat& format, const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  for (const auto& group : format.needed) {
    names.push_back(in_quotes(*std::find_if(group.begin(), group.end(),
                                            [&](std::string_view name) { return has(columns, name); })));
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace

RowFormat named_row_format(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KnownFormat& format : known_formats()) {
    if (format.name == name) {
      return {format.kind, {}, fmt::format("{} rows, as the recipe says", name)};
    }
    names.push_back(format.name);
  }
  throw bad_input(fmt::format("data format {}: there is no such format. There are auto, {}.",
                              in_quotes(name, 40), fmt::join(names, ", ")));
}

RowFormat row_format_from_columns(RowColumns columns) {
  parse_prompt_template(columns.prompt_template);
  RowFormat format = {RowFormatKind::columns, std::move(columns), ""};
  format.description = fmt::format("rows by the recipe's prompt template, learning the column {}",
                                   in_quotes(format.columns.completion, 60));
  return format;
}

RowFormat choose_row_format(const std::vector<std::vector<std::string>>& rows, const std::string& place) {
  for (const KnownFormat& format : known_formats()) {
    auto fitting = std::find_if(rows.begin(), rows.end(), [&](const std::vector<std::string>& columns) {
      return fits(format, columns);
    });
    if (fitting != rows.end()) {
      int64_t count = std::count_if(rows.begin(), rows.end(), [&](const std::vector<std::string>& columns) {
        return fits(format, columns);
      });
      std::string share =
          count == static_cast<int64_t>(rows.size())
              ? rows.size() == 1 ? "the first row has" : fmt::format("the first {} rows have", count)
              : fmt::format("{} of the first {} rows have", count, rows.size());
      return {format.kind,
              {},
              fmt::format("{} rows: {} {}", format.name, share, reason_columns(format, *fitting))};
    }
  }
  throw bad_input(fmt::format(
      "{}: no columns that snug knows; found {}. Rows need \"messages\", \"conversations\", "
      "\"instruction\" and "
      "\"output\", \"prompt\" and \"completion\" (or \"response\"), \"input\" and \"output\", or "
      "\"text\"; else say with data.prompt_template and data.completion_column which columns they are.",
      place, rows.empty() ? "no row that can be read" : column_list(rows[0])));
}

std::vector<PromptPart> parse_prompt_template(std::string_view prompt_template) {
  std::vector<PromptPart> parts(1);
  auto refuse = [&](std::string_view what) {
    return bad_input(
        fmt::format("prompt template {}: {}. Columns stand in braces, as in \"Question: {{question}}\"; "
                    "write {{{{ for a brace itself.",
                    in_quotes(prompt_template, 80), what));
  };
  for (size_t i = 0; i < prompt_template.size(); ++i) {
    char character = prompt_template[i];
    bool doubled = i + 1 < prompt_template.size() && prompt_template[i + 1] == character;
    if ((character == '{' || character == '}') && doubled) {
      parts.back().text += character;
      ++i;
    } else if (character == '}') {
      throw refuse("a '}' without '{'");
    } else if (character == '{') {
      size_t close = prompt_template.find('}', i);
      if (close == std::string_view::npos || close == i + 1) {
        throw refuse("a '{' without a column and '}'");
      }
      parts.back().column = prompt_template.substr(i + 1, close - i - 1);
      parts.emplace_back();
      i = close;
    } else {
      parts.back().text += character;
    }
  }
  return parts;
}

}  // namespace snug
