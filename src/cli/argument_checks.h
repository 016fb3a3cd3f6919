// Checks of what is given on the command line, for CLI11.
#pragma once

#include <string>

namespace snug {

// Each returns "" where the text is fine, else what is wrong with it.

// A variable of a shell script that is not set gives an empty text, which must not mean that nothing was
// asked for.
std::string find_emptiness(const std::string& text);

// CLI11's own ranges let pass what compares with nothing.
std::string find_no_number(const std::string& text);

}  // namespace snug
