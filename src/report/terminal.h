// How text looks on a terminal: colour only where there is one, no wider than it is, and numbers that line
// up.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// The width of what is no terminal.
inline constexpr size_t kUnlimitedColumns = 100'000;

// How text looks on one stream: its colours, and how wide it may be. Without a terminal (or with NO_COLOR
// set) there are no colours.
class Style {
 public:
  explicit Style(bool coloured, size_t columns = kUnlimitedColumns)
      : coloured_(coloured), columns_(columns) {}
  // As the stream is now: windows are dragged and sessions attached again at another width.
  static Style of(std::FILE* stream);
  static Style for_stdout() { return of(stdout); }
  static Style for_stderr() { return of(stderr); }

  bool coloured() const { return coloured_; }
  size_t columns() const { return columns_; }
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("31;1", text); }
  std::string accent(std::string_view text) const { return wrap("36", text); }

 private:
  std::string wrap(std::string_view code, std::string_view text) const;

  bool coloured_;
  size_t columns_;
};

// A model's own words go there as they are only if no terminal would obey them.
bool stdout_is_terminal();
// Whether a line can be written over: a terminal that is not dumb (TERM).
bool can_rewrite_lines(std::FILE* stream);
// How wide a stream is, asked anew each time: what its terminal says, and no more than COLUMNS if that is
// set.
size_t columns_of(std::FILE* stream);

// "42s", "3m 07s", "2h 05m"
std::string format_duration(double seconds);
// Filled by the share that is done.
inline constexpr int kBarCharacters = 24;
std::string progress_bar(int64_t done, int64_t total, int characters = kBarCharacters);

// Rows under a header, the first column left-aligned, the others right-aligned.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> rules_before;  // indices of rows that a line is drawn above

  // Columns that do not fit beside each other stand below, each time beside the first one.
  std::string to_text(const Style& style) const;

 private:
  // The columns [first, last) beside the first one of all.
  struct Block {
    size_t first = 0;
    size_t last = 0;
    size_t gap = 0;
  };
  std::string block(const Style& style, const Block& shown, const std::vector<size_t>& widths) const;
};

}  // namespace snug
