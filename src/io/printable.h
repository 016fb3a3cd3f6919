// Text from untrusted files, made fit for an error message: no control characters, no megabytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace snug {

// Control characters become \xNN or \uNNNN (a terminal must not obey a file); longer text is cut and ends in
// "...".
std::string printable(std::string_view untrusted, size_t max_bytes = 120);

// The same for text of several lines: line ends and tabs stay, and nothing is cut.
std::string printable_lines(std::string_view untrusted);

// As printable(), in double quotes.
std::string in_quotes(std::string_view untrusted, size_t max_bytes = 120);

}  // namespace snug
