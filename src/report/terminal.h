// How text looks on a terminal: colour only where there is one, and numbers that line up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// Styles text for one stream; without a terminal (or with NO_COLOR set) it returns text unchanged.
class Style {
 public:
  explicit Style(bool enabled) : enabled_(enabled) {}
  static Style for_stdout();
  static Style for_stderr();

  bool enabled() const { return enabled_; }
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("31;1", text); }
  std::string accent(std::string_view text) const { return wrap("36", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool enabled_;
};

// A model's own words go there as they are only if no terminal would obey them.
bool stdout_is_terminal();

// Characters that a UTF-8 text takes on the screen (one a code point).
size_t display_width(std::string_view text);
std::string pad_left(std::string_view text, size_t width);
std::string pad_right(std::string_view text, size_t width);

// "42s", "3m 07s", "2h 05m"
std::string format_duration(double seconds);
// Filled by the share that is done.
std::string progress_bar(int64_t done, int64_t total);

// Rows under a header, the first column left-aligned, the others right-aligned.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> rules_before;  // indices of rows that a line is drawn above

  std::string to_text(const Style& style) const;
};

}  // namespace snug
