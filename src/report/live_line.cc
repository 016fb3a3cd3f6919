// Writing a line over the one before.
#include "report/live_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/console.h"
#include "report/layout.h"
#include "report/terminal.h"

namespace snug {
namespace {

constexpr size_t kPartGap = 2;
constexpr auto kShortestTime = std::chrono::milliseconds(100);

// Where the last column is filled, a terminal may go on to the next line; and ^C is echoed behind the line.
constexpr size_t kFreeColumns = 3;

}  // namespace

std::string join_parts(const std::vector<LinePart>& parts, size_t columns) {
  std::vector<LinePart> kept = parts;
  auto width = [&] {
    size_t sum = 0;
    for (const LinePart& part : kept) {
      sum += kPartGap + display_width(part.text);
    }
    return sum;
  };
  auto by_rank = [](const LinePart& a, const LinePart& b) { return a.rank < b.rank; };
  while (kept.size() > 1 && width() > columns) {
    kept.erase(std::max_element(kept.begin(), kept.end(), by_rank));
  }
  std::string line;
  for (const LinePart& part : kept) {
    line += std::string(kPartGap, ' ') + part.text;
  }
  return cut_to_width(line, columns);
}

LiveLine::LiveLine(std::FILE* stream) : stream_(stream), enabled_(can_rewrite_lines(stream)) {}

size_t LiveLine::columns() const {
  return columns_of(stream_) - kFreeColumns;
}

bool LiveLine::is_due() const {
  return shown_columns_ == 0 || std::chrono::steady_clock::now() - shown_at_ >= kShortestTime;
}

std::string LiveLine::erasure() const {
  if (shown_columns_ == 0) {
    return "";
  }
  // A window that became narrower has broken the line into several.
  size_t lines_above = (shown_columns_ - 1) / columns_of(stream_);
  return (lines_above > 0 ? fmt::format("\x1b[{}A", lines_above) : "") + "\r\x1b[J";
}

void LiveLine::clear() {
  if (shown_columns_ > 0) {
    say(erasure(), stream_);
    shown_columns_ = 0;
  }
}

void LiveLine::show(const std::vector<LinePart>& parts) {
  if (!enabled_) {
    return;
  }
  std::string line = join_parts(parts, columns());
  say(erasure() + line, stream_);
  shown_columns_ = display_width(line);
  shown_at_ = std::chrono::steady_clock::now();
}

}  // namespace snug
