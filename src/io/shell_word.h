// Words of command lines that people are told to type.
#pragma once

#include <string>
#include <string_view>

namespace snug {

// The text as one word of a shell: as it is where the shell takes it so, else in single quotes.
std::string shell_word(std::string_view text);

}  // namespace snug
