// Each change is made at the marks of a fresh tree. yaml-cpp tells where nodes begin; where they end is found
// in the text.
#include "recipe/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "io/printable.h"
#include "recipe/stages.h"
#include "recipe/yaml_tree.h"

namespace snug {
namespace {

using Kind = YamlValue::Kind;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kDeeper = 2;  // blanks of a level that is new

struct Entry {
  YamlNode key;
  YamlNode value;
};

std::optional<Entry> find_entry(const YamlNode& map, std::string_view name) {
  const std::vector<YamlNode>& items = map.value->items;
  for (size_t i = 0; map.value->kind == Kind::map && i + 1 < items.size(); i += 2) {
    if (items[i].value->text == name) {
      return Entry{items[i], items[i + 1]};
    }
  }
  return std::nullopt;
}

class Edit {
 public:
  Edit(std::string text, const std::string& name)
      : text_(std::move(text)), source_{.name = name}, document_(text_, source_) {
    size_t first = text_.find('\n');
    newline_ = first != std::string::npos && first > 0 && text_[first - 1] == '\r' ? "\r\n" : "\n";
    lines_ = {0};
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '\n') {
        lines_.push_back(i + 1);
      }
    }
  }

  std::string set(std::string_view key, std::string_view value) {
    YamlNode map = document_.root();
    std::string prefix = fmt::format("{}.", kStagesKey);
    if (key.starts_with(prefix)) {
      key.remove_prefix(prefix.size());
      size_t dot = key.find('.');
      map = find_stage(key.substr(0, dot));
      key.remove_prefix(std::min(key.size(), dot + 1));
    }
    size_t dot = key.find('.');
    if (dot == std::string_view::npos) {
      set_entry(map, key, value);
    } else {
      set_in_section(map, key.substr(0, dot), key.substr(dot + 1), value);
    }
    return std::move(text_);
  }

 private:
  size_t offset_of(const YamlNode& node) const {
    size_t mark = node.line == 1 && text_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    return lines_[static_cast<size_t>(node.line) - 1] + static_cast<size_t>(node.column) - 1 + mark;
  }
  bool starts_with(size_t offset, char c) const { return offset < text_.size() && text_[offset] == c; }
  bool is_alias(const YamlNode& node) const { return starts_with(offset_of(node), '*'); }
  bool is_blank(size_t i) const { return text_[i] == ' ' || text_[i] == '\t' || text_[i] == '\r'; }

  // Where the value itself begins, behind an anchor or a tag.
  size_t start_of(const YamlNode& node) const {
    size_t at = offset_of(node);
    while (starts_with(at, '&') || starts_with(at, '!')) {
      at = std::min(text_.find_first_of(" \t\r\n", at), text_.size());
      at = std::min(text_.find_first_not_of(" \t\r\n", at), text_.size());
    }
    return at;
  }
  bool is_flow(const YamlNode& node) const {
    return starts_with(start_of(node), '{') || starts_with(start_of(node), '[');
  }

  size_t end_of_quoted(size_t at) const {
    char quote = text_[at++];
    while (at < text_.size() && text_[at] != quote) {
      at += quote == '"' && text_[at] == '\\' ? 2 : 1;
    }
    return std::min(at + 1, text_.size());  // in '...' two quotes are one: the text goes on with the second
  }

  // Behind the bracket that closes the one at `at`.
  size_t end_of_flow(size_t at) const {
    int depth = 0;
    for (size_t i = at; i < text_.size(); ++i) {
      bool begins = i == at || std::string_view(" \t\r\n[{,:").find(text_[i - 1]) != std::string_view::npos;
      if (begins && (text_[i] == '"' || text_[i] == '\'')) {
        i = end_of_quoted(i) - 1;
      } else if (begins && text_[i] == '#') {
        i = std::min(text_.find('\n', i), text_.size());
      } else if (text_[i] == '{' || text_[i] == '[') {
        ++depth;
      } else if (text_[i] == '}' || text_[i] == ']') {
        if (--depth == 0) {
          return i + 1;
        }
      }
    }
    return text_.size();
  }

  size_t end_of(const YamlNode& node) const {
    size_t at = start_of(node);
    if (is_alias(node)) {
      return std::min(text_.find_first_of(" \t\r\n,]}", at), text_.size());
    }
    if (is_flow(node)) {
      return end_of_flow(at);
    }
    const YamlValue& value = *node.value;
    if (value.kind == Kind::scalar) {
      bool is_quoted = starts_with(at, '"') || starts_with(at, '\'');
      return is_quoted ? end_of_quoted(at) : at + value.text.size();
    }
    return value.items.empty() ? at : end_of(value.items.back());
  }

  size_t end_of_line(size_t at) const {
    size_t end = std::min(text_.find('\n', at), text_.size());
    return end > at && text_[end - 1] == '\r' ? end - 1 : end;
  }

  YamlNode find_stage(std::string_view name) const {
    std::optional<Entry> stages = find_entry(document_.root(), kStagesKey);
    if (!stages) {
      throw bad_input(
          fmt::format("{}: its stages stand in the recipe that it extends: change that one", source_.name));
    }
    for (const YamlNode& stage : stages->value.value->items) {
      std::optional<Entry> found = find_entry(stage, "name");
      if (found && found->value.value->text == name) {
        return stage;
      }
    }
    throw bad_input(fmt::format("{}: no stage is called {}", source_.name, in_quotes(name)));
  }

  void set_in_section(const YamlNode& map, std::string_view section, std::string_view key,
                      std::string_view value) {
    std::optional<Entry> found = find_entry(map, section);
    if (!found) {
      bool in_line = is_flow(map);
      bool stands_apart = map.value == document_.root().value &&
                          text_.find(fmt::format("{}{}", newline_, newline_)) != std::string::npos;
      std::string indent(column_of(map) + kDeeper, ' ');
      add_entry(map, stands_apart && !in_line ? newline_ : "",
                in_line ? fmt::format("{}: {{{}: {}}}", section, key, value)
                        : fmt::format("{}:{}{}{}: {}", section, newline_, indent, key, value));
    } else if (is_alias(found->value)) {
      throw bad_input(fmt::format("{}: {} is an alias, which others share: write its keys out",
                                  source_.at(found->value), section));
    } else if (found->value.value->kind == Kind::null) {
      fill_empty(*found, key, value);
    } else {
      set_entry(found->value, key, value);
    }
  }

  void set_entry(const YamlNode& map, std::string_view key, std::string_view value) {
    if (std::optional<Entry> found = find_entry(map, key)) {
      replace_value(*found, value);
    } else {
      add_entry(map, "", fmt::format("{}: {}", key, value));
    }
  }

  // Behind "key:", where a null has its text if it has one.
  size_t value_place(const Entry& entry) const {
    size_t colon = text_.find(':', end_of(entry.key));
    return std::min(text_.find_first_not_of(" \t", colon + 1), text_.size());
  }
  // Of an entry that is null: how long the word for it is.
  size_t null_size(size_t at) const {
    for (std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (std::string_view(text_).substr(at).starts_with(word)) {
        return word.size();
      }
    }
    return 0;
  }

  void replace_value(const Entry& entry, std::string_view value) {
    if (entry.value.value->kind == Kind::null) {
      size_t at = value_place(entry);
      if (size_t size = null_size(at); size > 0) {
        text_.replace(at, size, value);
      } else {
        text_.insert(text_.find(':', end_of(entry.key)) + 1, fmt::format(" {}", value));
      }
      return;
    }
    size_t begin = start_of(entry.value);
    bool is_below = entry.value.line > entry.key.line && entry.value.column <= entry.key.column;
    text_.replace(begin, end_of(entry.value) - begin,
                  std::string(is_below ? kDeeper : 0, ' ') + std::string(value));
  }

  void fill_empty(const Entry& section, std::string_view key, std::string_view value) {
    size_t at = value_place(section);
    if (size_t size = null_size(at); size > 0) {
      text_.replace(at, size, fmt::format("{{{}: {}}}", key, value));
      return;
    }
    std::string indent(static_cast<size_t>(section.key.column) - 1 + kDeeper, ' ');
    text_.insert(end_of_line(end_of(section.key)), fmt::format("{}{}{}: {}", newline_, indent, key, value));
  }

  size_t column_of(const YamlNode& map) const {
    const std::vector<YamlNode>& items = map.value->items;
    return items.empty() ? 0 : static_cast<size_t>(items.front().column) - 1;
  }

  // Behind the last one.
  void add_entry(const YamlNode& map, std::string_view before, const std::string& entry) {
    if (is_flow(map)) {
      size_t bracket = end_of_flow(start_of(map)) - 1;
      size_t last = bracket;
      while (last > 0 && (is_blank(last - 1) || text_[last - 1] == '\n')) {
        --last;
      }
      bool is_first = map.value->items.empty();
      bool has_comma = text_[last - 1] == ',';
      bool is_one_line = text_.substr(last, bracket - last).find('\n') == std::string::npos;
      text_.insert(is_one_line ? last : bracket,
                   fmt::format("{}{}", is_first ? "" : (has_comma ? " " : ", "), entry));
      return;
    }
    size_t column = column_of(map);
    std::string line = fmt::format("{}{}{}{}", before, newline_, std::string(column, ' '), entry);
    text_.insert(end_of_line(lines_[last_line(map, column)]), line);
  }

  // The last line, counted from 0, of a map in lines whose keys stand in this column.
  size_t last_line(const YamlNode& map, size_t column) const {
    const YamlNode& last_key = map.value->items[map.value->items.size() - 2];
    auto last = static_cast<size_t>(last_key.line) - 1;
    for (size_t line = last + 1; line < lines_.size(); ++line) {
      size_t word = std::min(text_.find_first_not_of(" \t\r", lines_[line]), text_.size());
      if (word == text_.size() || text_[word] == '\n' || text_[word] == '#') {
        continue;
      }
      size_t indent = word - lines_[line];
      bool is_item = text_[word] == '-' && word + 1 < text_.size() && text_[word + 1] == ' ';
      if (indent < column || (indent == column && !is_item)) {
        break;
      }
      last = line;
    }
    return last;
  }

  std::string text_;
  YamlSource source_;
  YamlDocument document_;
  std::string_view newline_;
  std::vector<size_t> lines_;  // where they begin
};

}  // namespace

std::string edit_recipe(std::string_view text, const std::string& name,
                        const std::vector<std::string>& settings) {
  std::string edited(text);
  for (const std::string& setting : settings) {
    size_t equals = setting.find('=');
    edited = Edit(std::move(edited), name)
                 .set(std::string_view(setting).substr(0, equals),
                      std::string_view(setting).substr(std::min(equals + 1, setting.size())));
  }
  return edited;
}

}  // namespace snug
