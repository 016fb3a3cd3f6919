// Walking over text that should be UTF-8 but need not be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

enum class Utf8Status : uint8_t {
  valid,       // one whole character
  invalid,     // bytes that can never start a character
  incomplete,  // the text ends inside a character that more bytes could complete
};

// What a text starts with. `length_bytes` is at least 1 for a text that is not empty; for `invalid` it is the
// longest run that one replacement character stands for (Unicode's "maximal subpart").
struct Utf8Unit {
  Utf8Status status = Utf8Status::valid;
  size_t length_bytes = 0;
  uint32_t codepoint = 0;  // for `valid` only
};

Utf8Unit first_utf8_unit(std::string_view text);

// Length of the longest prefix made of whole characters; text.size() if all of it is UTF-8.
size_t valid_utf8_prefix_bytes(std::string_view text);

// The same text with U+FFFD for whatever is not UTF-8, so that it can be printed and put into JSON.
std::string replace_invalid_utf8(std::string_view text);

void append_utf8(std::string& text, uint32_t codepoint);

}  // namespace snug
