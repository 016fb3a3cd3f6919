// Walking over text that should be UTF-8 but need not be.
#include "base/utf8.h"

namespace snug {

namespace {

// How a character with a given first byte goes on. The second byte's range excludes overlong forms,
// surrogates and what lies beyond U+10FFFF (The Unicode Standard, table 3-7).
struct Lead {
  size_t length_bytes = 0;  // 0: no character starts so
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) {
    return {.length_bytes = 1};
  }
  if (byte < 0xC2) {
    return {};
  }
  if (byte < 0xE0) {
    return {.length_bytes = 2};
  }
  if (byte < 0xF0) {
    return {.length_bytes = 3,
            .second_low = static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            .second_high = static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {.length_bytes = 4,
            .second_low = static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            .second_high = static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {};
}

}  // namespace

Utf8Unit first_utf8_unit(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  uint8_t first = static_cast<uint8_t>(text[0]);
  Lead lead = lead_of(first);
  if (lead.length_bytes == 0) {
    return {Utf8Status::invalid, 1, 0};
  }
  if (lead.length_bytes == 1) {
    return {Utf8Status::valid, 1, first};
  }
  uint32_t codepoint = first & (0x7FU >> lead.length_bytes);
  for (size_t i = 1; i < lead.length_bytes; ++i) {
    if (i == text.size()) {
      return {Utf8Status::incomplete, i, 0};
    }
    uint8_t byte = static_cast<uint8_t>(text[i]);
    uint8_t low = i == 1 ? lead.second_low : uint8_t{0x80};
    uint8_t high = i == 1 ? lead.second_high : uint8_t{0xBF};
    if (byte < low || byte > high) {
      return {Utf8Status::invalid, i, 0};
    }
    codepoint = (codepoint << 6) | (byte & 0x3FU);
  }
  return {Utf8Status::valid, lead.length_bytes, codepoint};
}

size_t valid_utf8_prefix_bytes(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    if (static_cast<uint8_t>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    Utf8Unit unit = first_utf8_unit(text.substr(position));
    if (unit.status != Utf8Status::valid) {
      break;
    }
    position += unit.length_bytes;
  }
  return position;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    size_t valid = valid_utf8_prefix_bytes(text);
    result.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (!text.empty()) {
      append_utf8(result, 0xFFFD);
      text.remove_prefix(first_utf8_unit(text).length_bytes);
    }
  }
  return result;
}

void append_utf8(std::string& text, uint32_t codepoint) {
  if (codepoint < 0x80) {
    text += static_cast<char>(codepoint);
  } else if (codepoint < 0x800) {
    text += static_cast<char>(0xC0U | (codepoint >> 6));
    text += static_cast<char>(0x80U | (codepoint & 0x3FU));
  } else if (codepoint < 0x10000) {
    text += static_cast<char>(0xE0U | (codepoint >> 12));
    text += static_cast<char>(0x80U | ((codepoint >> 6) & 0x3FU));
    text += static_cast<char>(0x80U | (codepoint & 0x3FU));
  } else {
    text += static_cast<char>(0xF0U | (codepoint >> 18));
    text += static_cast<char>(0x80U | ((codepoint >> 12) & 0x3FU));
    text += static_cast<char>(0x80U | ((codepoint >> 6) & 0x3FU));
    text += static_cast<char>(0x80U | (codepoint & 0x3FU));
  }
}

}  // namespace snug
