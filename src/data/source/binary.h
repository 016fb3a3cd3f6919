// Files that are no text at all, known by their first bytes.
#pragma once

#include <string>
#include <string_view>

namespace snug {

// What the file is and how to make rows of it, to be said behind its name; "" if it may be text. `start` is
// how it begins, decompressed; `name` stands in the commands that are proposed.
std::string binary_file_problem(std::string_view start, const std::string& name);

// The same for a file of an unknown kind that would be read as plain text: a zero byte never stands in that.
std::string unreadable_text_problem(std::string_view start);

}  // namespace snug
