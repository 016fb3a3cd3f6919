// A terminal of a given width, to the extent that snug uses one: what a person would see of the bytes that
// were written to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace snug {

class Screen {
 public:
  explicit Screen(size_t columns) : columns_(columns) {}

  void write(std::string_view text) {
    while (!text.empty()) {
      if (text.starts_with("\x1b[")) {
        size_t end = std::min(text.find_first_not_of("0123456789;", 2), text.size() - 1);
        obey(text[end], std::string(text.substr(2, end - 2)));
        text.remove_prefix(end + 1);
        continue;
      }
      Utf8Unit unit = first_utf8_unit(text);
      put(unit.codepoint);
      text.remove_prefix(unit.length_bytes);
    }
  }

  // As tmux and most others do it: what was one line is one line, broken anew.
  void resize(size_t columns) {
    std::vector<Row> rows;
    size_t cursor_row = 0;
    size_t cursor_column = 0;
    for (size_t i = 0; i < rows_.size();) {
      std::u32string line;
      size_t cursor = std::u32string::npos;
      do {
        cursor = i == row_ ? line.size() + column_ : cursor;
        line += rows_[i].text;
      } while (rows_[i++].goes_on && i < rows_.size());
      size_t first = rows.size();
      for (size_t begin = 0; begin == 0 || begin < line.size(); begin += columns) {
        rows.push_back({line.substr(begin, columns), begin + columns < line.size()});
      }
      if (cursor != std::u32string::npos) {
        cursor_row = std::min(first + cursor / columns, rows.size() - 1);
        cursor_column = cursor - (cursor_row - first) * columns;
      }
    }
    rows_ = rows;
    row_ = cursor_row;
    column_ = cursor_column;
    columns_ = columns;
  }

  // Without the blanks at their ends.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const Row& row : rows_) {
      std::string line;
      for (char32_t c : row.text) {
        append_utf8(line, c);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      lines.push_back(line);
    }
    return lines;
  }
  std::string text() const {
    std::string text;
    for (const std::string& line : lines()) {
      text += line + "\n";
    }
    return text;
  }
  // Rows that are full and go on below, as nobody broke the line before the edge.
  size_t wrapped_rows() const {
    return static_cast<size_t>(
        std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.goes_on; }));
  }
  bool understood_everything() const { return understood_everything_; }

 private:
  struct Row {
    std::u32string text;
    bool goes_on = false;
  };

  void put(char32_t c) {
    if (c == U'\r') {
      column_ = 0;
    } else if (c == U'\n') {
      next_row();
    } else {
      if (column_ == columns_) {
        rows_[row_].goes_on = true;
        next_row();
        column_ = 0;
      }
      std::u32string& text = rows_[row_].text;
      text.resize(std::max(text.size(), column_ + 1), U' ');
      text[column_++] = c;
    }
  }
  void next_row() {
    if (++row_ == rows_.size()) {
      rows_.emplace_back();
    }
  }
  void obey(char command, const std::string& argument) {
    if (command == 'A') {
      row_ -= std::min<size_t>(row_, argument.empty() ? 1 : std::stoul(argument));
      column_ = std::min(column_, columns_ - 1);
    } else if (command == 'J' && argument.empty()) {
      rows_.resize(row_ + 1);
      rows_[row_].text.resize(std::min(rows_[row_].text.size(), column_));
      rows_[row_].goes_on = false;
    } else if (command != 'm') {
      understood_everything_ = false;
    }
  }

  size_t columns_;
  std::vector<Row> rows_ = std::vector<Row>(1);
  size_t row_ = 0;
  size_t column_ = 0;
  bool understood_everything_ = true;
};

}  // namespace snug
