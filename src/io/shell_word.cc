// Quoting for POSIX shells.
#include "io/shell_word.h"

#include <algorithm>

namespace snug {
namespace {

// Bytes of other scripts mean nothing to a shell.
bool is_plain(char c) {
  bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return is_letter || static_cast<unsigned char>(c) >= 0x80 ||
         std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) {
    return std::string(text);
  }
  std::string quoted = "'";
  for (char c : text) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

}  // namespace snug
