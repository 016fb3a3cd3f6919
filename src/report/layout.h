// Text by its width on a screen: measured, padded, broken into lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/terminal.h"

namespace snug {

// Columns that a UTF-8 text takes at most: two for Chinese, Japanese and Korean characters and for emoji,
// none for marks and for escape sequences of colour.
size_t display_width(std::string_view text);
std::string pad_left(std::string_view text, size_t width);
std::string pad_right(std::string_view text, size_t width);
// The longest beginning that fits, with "…" behind it if there was more.
std::string cut_to_width(std::string_view text, size_t columns);
// The same for texts that stand side by side because they are not the same. Where that would leave the same
// of several, as of long paths, the beginning that all have goes first, in whole folders if it has any.
std::vector<std::string> cut_where_they_differ(std::vector<std::string> texts, size_t columns);

// Breaks a line at blanks; what follows is indented. A word that is wider than all columns stays whole: it
// can be copied then.
std::string broken_line(std::string_view line, size_t columns, size_t indent);

// All lines of a text, without indents.
std::string broken_lines(std::string_view text, size_t columns);

// All lines, no wider than the stream. "  label  text" goes on under the text.
std::string fit_lines(std::string_view text, const Style& style);

}  // namespace snug
