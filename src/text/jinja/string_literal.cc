// The escapes in a template's string literals, which are Python's.
#include "text/jinja/string_literal.h"

#include <charconv>
#include <cstdint>

#include "base/utf8.h"

namespace snug::jinja {

namespace {

// The code of one escape and how many characters it took after the backslash; 0 if it is damaged.
struct Escape {
  uint32_t codepoint = 0;
  size_t length = 0;
};

Escape read_digits(std::string_view text, size_t prefix, size_t digits, int base) {
  std::string_view number = text.substr(prefix, digits);
  uint32_t codepoint = 0;
  auto result = std::from_chars(number.data(), number.data() + number.size(), codepoint, base);
  bool whole = number.size() == digits && result.ptr == number.data() + number.size();
  bool is_character = codepoint <= 0x10FFFF && (codepoint < 0xD800 || codepoint > 0xDFFF);
  return whole && result.ec == std::errc() && is_character ? Escape{codepoint, prefix + digits} : Escape{};
}

Escape read_octal(std::string_view text) {
  size_t digits = 0;
  while (digits < 3 && digits < text.size() && text[digits] >= '0' && text[digits] <= '7') {
    ++digits;
  }
  return read_digits(text, 0, digits, 8);
}

// Escapes of one letter; 0 if it is none.
char simple_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return '\0';
  }
}

}  // namespace

std::optional<std::string> decode_string_literal(std::string_view literal) {
  std::string out;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out += literal[i];
      continue;
    }
    std::string_view escape = literal.substr(i + 1);
    Escape code;
    switch (escape[0]) {
      case 'x':
        code = read_digits(escape, 1, 2, 16);
        break;
      case 'u':
        code = read_digits(escape, 1, 4, 16);
        break;
      case 'U':
        code = read_digits(escape, 1, 8, 16);
        break;
      case 'N':
        break;
      default:
        if (escape[0] >= '0' && escape[0] <= '7') {
          code = read_octal(escape);
          break;
        }
        if (char simple = simple_escape(escape[0]); simple != '\0') {
          out += simple;
        } else if (escape[0] != '\n') {  // a line end after a backslash is left out, others stay as they are
          out += '\\';
          out += escape[0];
        }
        ++i;
        continue;
    }
    if (code.length == 0) {
      return std::nullopt;
    }
    append_utf8(out, code.codepoint);
    i += code.length;
  }
  return out;
}

}  // namespace snug::jinja
