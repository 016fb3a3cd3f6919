// Escaping and shortening of untrusted text.
#include "io/printable.h"

#include <fmt/format.h>

namespace snug {

namespace {

unsigned byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

struct Control {
  size_t bytes = 0;  // 0: the text begins with something harmless
  uint32_t codepoint = 0;
};

// What a terminal may obey or turn around: control characters, also those of Latin-1, and the marks that
// change the direction of writing.
Control leading_control(std::string_view text) {
  unsigned first = byte_at(text, 0);
  unsigned second = byte_at(text, 1);
  unsigned third = byte_at(text, 2);
  if (first < 0x20 || first == 0x7F) {
    return {1, first};
  }
  if (first == 0xC2 && second >= 0x80 && second < 0xA0) {
    return {2, second};
  }
  bool turns = (second == 0x80 && third >= 0xAA && third <= 0xAE) ||  // U+202A to U+202E
               (second == 0x81 && third >= 0xA6 && third <= 0xA9);    // U+2066 to U+2069
  return first == 0xE2 && turns ? Control{3, 0x2000U + (second - 0x80U) * 0x40U + (third - 0x80U)}
                                : Control{};
}

std::string escaped(std::string_view untrusted, std::string_view kept) {
  std::string text;
  while (!untrusted.empty()) {
    Control control = leading_control(untrusted);
    if (control.bytes == 0 || kept.find(untrusted[0]) != std::string_view::npos) {
      text += untrusted[0];
      untrusted.remove_prefix(1);
    } else {
      text += control.bytes == 1 ? fmt::format("\\x{:02x}", control.codepoint)
                                 : fmt::format("\\u{:04x}", control.codepoint);
      untrusted.remove_prefix(control.bytes);
    }
  }
  return text;
}

}  // namespace

std::string printable(std::string_view untrusted, size_t max_bytes) {
  if (untrusted.size() <= max_bytes) {
    return escaped(untrusted, "");
  }
  size_t length = max_bytes;
  while (length > 0 && (byte_at(untrusted, length) & 0xC0U) == 0x80U) {
    --length;  // not in the middle of a UTF-8 character
  }
  return escaped(untrusted.substr(0, length), "") + "...";
}

std::string printable_lines(std::string_view untrusted) {
  return escaped(untrusted, "\n\t");
}

std::string in_quotes(std::string_view untrusted, size_t max_bytes) {
  return '"' + printable(untrusted, max_bytes) + '"';
}

}  // namespace snug
