// Walking over text that is known to be UTF-8: no checks, because Tokenizer has repaired the text before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace snug {

struct Character {
  uint32_t codepoint = 0;
  size_t length_bytes = 0;
};

// Bytes of the character that starts with `first`.
inline size_t utf8_length_bytes(char first) {
  auto byte = static_cast<uint8_t>(first);
  if (byte < 0x80) {
    return 1;
  }
  return byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Whether the byte goes on with a character that another one began.
inline bool is_utf8_continuation(char c) {
  return (static_cast<uint8_t>(c) & 0xC0U) == 0x80U;
}

// The character at `position`, which must be the start of one.
inline Character character_at(std::string_view text, size_t position) {
  auto byte = [&](size_t i) -> uint32_t { return static_cast<uint8_t>(text[position + i]); };
  uint32_t first = byte(0);
  if (first < 0x80) {
    return {first, 1};
  }
  if (first < 0xE0) {
    return {((first & 0x1FU) << 6) | (byte(1) & 0x3FU), 2};
  }
  if (first < 0xF0) {
    return {((first & 0x0FU) << 12) | ((byte(1) & 0x3FU) << 6) | (byte(2) & 0x3FU), 3};
  }
  return {((first & 0x07U) << 18) | ((byte(1) & 0x3FU) << 12) | ((byte(2) & 0x3FU) << 6) | (byte(3) & 0x3FU),
          4};
}

// The character that ends before `position`, which must be more than 0.
inline Character character_before(std::string_view text, size_t position) {
  size_t start = position - 1;
  while (start > 0 && is_utf8_continuation(text[start])) {
    --start;
  }
  return character_at(text, start);
}

}  // namespace snug
