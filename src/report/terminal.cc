// Terminal text.
#include "report/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace snug {
namespace {

constexpr int kBarCharacters = 24;

Style style_for(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  bool wanted = no_color == nullptr || *no_color == '\0';
  return Style(wanted && isatty(descriptor) == 1);
}

}  // namespace

Style Style::for_stdout() {
  return style_for(STDOUT_FILENO);
}
Style Style::for_stderr() {
  return style_for(STDERR_FILENO);
}

bool stdout_is_terminal() {
  return isatty(STDOUT_FILENO) == 1;
}

std::string Style::wrap(std::string_view code, std::string_view text) const {
  if (!enabled_) {
    return std::string(text);
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string pad_left(std::string_view text, size_t width) {
  size_t shown = display_width(text);
  return std::string(width > shown ? width - shown : 0, ' ') + std::string(text);
}

std::string pad_right(std::string_view text, size_t width) {
  size_t shown = display_width(text);
  return std::string(text) + std::string(width > shown ? width - shown : 0, ' ');
}

std::string format_duration(double seconds) {
  int64_t whole = std::lround(seconds);
  if (whole >= 3600) {
    return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  }
  return whole >= 60 ? fmt::format("{}m {:02}s", whole / 60, whole % 60) : fmt::format("{}s", whole);
}

std::string progress_bar(int64_t done, int64_t total) {
  int64_t filled = total > 0 ? done * kBarCharacters / total : 0;
  std::string text;
  for (int64_t i = 0; i < kBarCharacters; ++i) {
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

  auto line = [&](const std::vector<std::string>& row) {
    std::string text = "  ";
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? pad_right(row[i], widths[i]) : "   " + pad_left(row[i], widths[i]);
    }
    return text;
  };
  size_t total = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    total += widths[i] + (i == 0 ? 0 : 3);
  }
  std::string rule = "  ";
  for (size_t i = 0; i < total; ++i) {
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
