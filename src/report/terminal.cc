// Terminal text.
#include "report/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "report/layout.h"

namespace snug {
namespace {

constexpr size_t kMargin = 2;
constexpr size_t kColumnGap = 3;
constexpr size_t kNarrowGap = 2;
constexpr size_t kNarrowestScreen = 20;  // below that something else is wrong
constexpr size_t kUsualScreen = 80;

bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) == 1;
}

// What people set by hand, or export from a shell.
size_t columns_variable() {
  const char* text = std::getenv("COLUMNS");
  int columns = text == nullptr ? 0 : std::atoi(text);
  return columns > 0 ? static_cast<size_t>(columns) : kUnlimitedColumns;
}

size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  bool is_known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUnlimitedColumns;
}

}  // namespace

bool can_rewrite_lines(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return is_terminal(stream) && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

size_t columns_of(std::FILE* stream) {
  size_t columns = columns_variable();
  if (is_terminal(stream)) {
    columns = std::min(columns, terminal_columns(stream));
    columns = columns == kUnlimitedColumns ? kUsualScreen : columns;
  }
  return std::max(columns, kNarrowestScreen);
}

bool stdout_is_terminal() {
  return is_terminal(stdout);
}

Style Style::of(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  bool wanted = no_color == nullptr || *no_color == '\0';
  return Style(wanted && can_rewrite_lines(stream), columns_of(stream));
}

std::string Style::wrap(std::string_view code, std::string_view text) const {
  if (!coloured_) {
    return std::string(text);
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string format_duration(double seconds) {
  int64_t whole = std::lround(seconds);
  if (whole >= 3600) {
    return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  }
  return whole >= 60 ? fmt::format("{}m {:02}s", whole / 60, whole % 60) : fmt::format("{}s", whole);
}

std::string progress_bar(int64_t done, int64_t total, int characters) {
  int64_t filled = total > 0 ? done * characters / total : 0;
  std::string text;
  for (int64_t i = 0; i < characters; ++i) {
    text += i < filled ? "█" : "░";
  }
  return text;
}

std::string Table::to_text(const Style& style) const {
  std::vector<size_t> widths(header.size(), 0);
  auto measure = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  };
  measure(header);
  std::for_each(rows.begin(), rows.end(), measure);

  auto width_with = [&](size_t gap) {
    return std::accumulate(widths.begin(), widths.end(), kMargin + gap * (widths.size() - 1));
  };
  bool fits_only_closer =
      width_with(kColumnGap) > style.columns() && width_with(kNarrowGap) <= style.columns();
  size_t gap = fits_only_closer ? kNarrowGap : kColumnGap;
  std::string text;
  for (size_t first = 1; first < header.size();) {
    size_t last = first;
    size_t used = kMargin + widths[0];
    while (last < header.size() && (last == first || used + gap + widths[last] <= style.columns())) {
      used += gap + widths[last++];
    }
    text += (text.empty() ? "" : "\n") + block(style, {first, last, gap}, widths);
    first = last;
  }
  return text;
}

std::string Table::block(const Style& style, const Block& shown, const std::vector<size_t>& widths) const {
  auto line = [&](const std::vector<std::string>& row) {
    std::string text = std::string(kMargin, ' ') + pad_right(row[0], widths[0]);
    for (size_t i = shown.first; i < std::min(shown.last, row.size()); ++i) {
      text += std::string(shown.gap, ' ') + pad_left(row[i], widths[i]);
    }
    return text;
  };
  std::string rule(kMargin, ' ');
  for (size_t i = kMargin; i < display_width(line(header)); ++i) {
    rule += "─";
  }
  std::string text = style.bold(line(header)) + "\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::find(rules_before.begin(), rules_before.end(), i) != rules_before.end()) {
      text += style.dim(rule) + "\n";
    }
    text += line(rows[i]) + "\n";
  }
  return text;
}

}  // namespace snug
