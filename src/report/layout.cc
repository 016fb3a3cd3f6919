// Widths by ranges of code points, and greedy line breaks.
#include "report/layout.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>

#include "base/utf8.h"
#include "text/unicode/ranges.h"

namespace snug {
namespace {

constexpr size_t kTabColumns = 8;

// What terminals draw two columns wide: the blocks in which Unicode's East_Asian_Width is W or F.
constexpr std::array kWideRanges = {
    CodepointRange{0x1100, 0x115F},   CodepointRange{0x2E80, 0x303E},   CodepointRange{0x3041, 0xA4CF},
    CodepointRange{0xA960, 0xA97C},   CodepointRange{0xAC00, 0xD7A3},   CodepointRange{0xF900, 0xFAFF},
    CodepointRange{0xFE30, 0xFE6F},   CodepointRange{0xFF01, 0xFF60},   CodepointRange{0xFFE0, 0xFFE6},
    CodepointRange{0x17000, 0x18CFF}, CodepointRange{0x1B000, 0x1B2FF}, CodepointRange{0x1F300, 0x1F64F},
    CodepointRange{0x1F680, 0x1F6FF}, CodepointRange{0x1F900, 0x1FAFF}, CodepointRange{0x20000, 0x3FFFD}};

bool is_in(std::span<const CodepointRange> ranges, uint32_t codepoint) {
  auto after =
      std::upper_bound(ranges.begin(), ranges.end(), codepoint,
                       [](uint32_t wanted, const CodepointRange& range) { return wanted < range.first; });
  return after != ranges.begin() && codepoint <= std::prev(after)->last;
}

size_t columns_of(uint32_t codepoint) {
  if (codepoint == '\t') {
    return kTabColumns;
  }
  if (codepoint < 0x300) {  // where marks begin
    return 1;
  }
  return is_in(kWideRanges, codepoint) ? 2 : is_in(mark_ranges(), codepoint) ? 0 : 1;
}

// One character or one escape sequence of colour.
struct Unit {
  size_t bytes = 0;
  size_t columns = 0;
};

Unit first_unit(std::string_view text) {
  if (text.front() == '\x1b') {
    size_t end = text.find('m');
    return {end == std::string_view::npos ? text.size() : end + 1, 0};
  }
  Utf8Unit unit = first_utf8_unit(text);
  return {unit.length_bytes, unit.status == Utf8Status::valid ? columns_of(unit.codepoint) : 1};
}

size_t count_blanks(std::string_view text) {
  return std::min(text.find_first_not_of(' '), text.size());
}

// What stays on one line: a word, or a wide character alone, as their languages have no blanks.
Unit first_word(std::string_view text) {
  Unit word;
  while (word.bytes < text.size() && text[word.bytes] != ' ') {
    Unit next = first_unit(text.substr(word.bytes));
    bool is_wide = next.columns == 2;
    if (is_wide && word.columns > 0) {
      break;
    }
    word = {word.bytes + next.bytes, word.columns + next.columns};
    if (is_wide) {
      break;
    }
  }
  return word;
}

// Where the text of "  label  text" begins; a little behind the first blanks if there is no label, or if it
// takes half of the line.
size_t indent_of(std::string_view line, size_t columns) {
  size_t first = count_blanks(line);
  size_t gap = line.find("  ", first);
  if (gap != std::string_view::npos) {
    size_t text = gap + count_blanks(line.substr(gap));
    size_t indent = display_width(line.substr(0, text));
    if (text < line.size() && indent <= columns / 2) {
      return indent;
    }
  }
  return first == 0 ? 0 : first + 2;
}

template <typename Change>
std::string each_line(std::string_view text, Change change) {
  std::string changed;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    changed += change(text.substr(begin, end - begin));
    changed += end < text.size() ? "\n" : "";
    begin = end + 1;
  }
  return changed;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    Unit unit = first_unit(text);
    columns += unit.columns;
    text.remove_prefix(unit.bytes);
  }
  return columns;
}

std::string pad_left(std::string_view text, size_t width) {
  size_t shown = display_width(text);
  return std::string(width > shown ? width - shown : 0, ' ') + std::string(text);
}

std::string pad_right(std::string_view text, size_t width) {
  size_t shown = display_width(text);
  return std::string(text) + std::string(width > shown ? width - shown : 0, ' ');
}

std::string cut_to_width(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) {
    return std::string(text);
  }
  std::string kept;
  size_t used = 1;  // for the "…"
  bool is_full = columns == 0;
  while (!text.empty()) {
    Unit unit = first_unit(text);
    is_full = is_full || used + unit.columns > columns;
    if (!is_full || unit.columns == 0) {  // colours still have to end
      kept += text.substr(0, unit.bytes);
      used += unit.columns;
    }
    text.remove_prefix(unit.bytes);
  }
  return columns == 0 ? kept : kept + "…";
}

std::vector<std::string> cut_where_they_differ(std::vector<std::string> texts, size_t columns) {
  auto cut = [&] {
    std::vector<std::string> shown;
    for (const std::string& text : texts) {
      shown.push_back(cut_to_width(text, columns));
    }
    return shown;
  };
  auto count_different = [](const std::vector<std::string>& all) {
    return std::set<std::string_view>(all.begin(), all.end()).size();
  };
  std::vector<std::string> shown = cut();
  if (count_different(shown) == count_different(texts)) {
    return shown;
  }
  std::string_view common = texts.front();
  for (const std::string& text : texts) {
    auto end = std::mismatch(common.begin(), common.end(), text.begin(), text.end()).first;
    common = common.substr(0, static_cast<size_t>(end - common.begin()));
  }
  size_t folders = common.rfind('/');
  size_t cut_bytes = folders != std::string_view::npos ? folders : valid_utf8_prefix_bytes(common);
  for (std::string& text : texts) {
    text = (cut_bytes > 0 ? "…" : "") + text.substr(cut_bytes);
  }
  return cut();
}

std::string broken_line(std::string_view line, size_t columns, size_t indent) {
  std::string text;
  size_t used = 0;
  while (!line.empty()) {
    size_t blanks = count_blanks(line);
    Unit word = first_word(line.substr(blanks));
    if (used > indent && used + blanks + word.columns > columns) {
      text += "\n" + std::string(indent, ' ');
      used = indent;
    } else {
      text.append(blanks, ' ');
      used += blanks;
    }
    text += line.substr(blanks, word.bytes);
    used += word.columns;
    line.remove_prefix(blanks + word.bytes);
  }
  return text;
}

std::string broken_lines(std::string_view text, size_t columns) {
  return each_line(text, [&](std::string_view line) { return broken_line(line, columns, 0); });
}

std::string fit_lines(std::string_view text, const Style& style) {
  return each_line(text, [&](std::string_view line) {
    bool fits = display_width(line) <= style.columns();
    return fits ? std::string(line) : broken_line(line, style.columns(), indent_of(line, style.columns()));
  });
}

}  // namespace snug
