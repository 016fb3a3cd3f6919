// Escaping and shortening of untrusted text.
#include "io/printable.h"

#include <fmt/format.h>

namespace snug {

std::string printable(std::string_view untrusted, size_t max_bytes) {
  bool cut = untrusted.size() > max_bytes;
  if (cut) {
    size_t length = max_bytes;
    while (length > 0 && (static_cast<unsigned char>(untrusted[length]) & 0xC0U) == 0x80U) {
      --length;  // not in the middle of a UTF-8 character
    }
    untrusted = untrusted.substr(0, length);
  }
  std::string text;
  for (char character : untrusted) {
    auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += character;
    }
  }
  return cut ? text + "..." : text;
}

std::string in_quotes(std::string_view untrusted, size_t max_bytes) {
  return '"' + printable(untrusted, max_bytes) + '"';
}

}  // namespace snug
