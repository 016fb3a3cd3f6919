// UTF-8 by the table of well-formed byte sequences in the Unicode standard (table 3-7).
#include "recipe/utf8.h"

#include <cstdint>

namespace snug {
namespace {

struct Lead {
  size_t following = 0;  // continuation bytes
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xBF;
  bool valid = true;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) {
    return {};
  }
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {.following = 1};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {.following = 2,
            .second_low = byte == 0xE0 ? uint8_t{0xA0} : uint8_t{0x80},
            .second_high = byte == 0xED ? uint8_t{0x9F} : uint8_t{0xBF}};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {.following = 3,
            .second_low = byte == 0xF0 ? uint8_t{0x90} : uint8_t{0x80},
            .second_high = byte == 0xF4 ? uint8_t{0x8F} : uint8_t{0xBF}};
  }
  return {.valid = false};
}

}  // namespace

size_t first_invalid_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    Lead lead = lead_of(static_cast<uint8_t>(text[i]));
    if (!lead.valid || text.size() - i <= lead.following) {
      return i;
    }
    for (size_t k = 1; k <= lead.following; ++k) {
      auto byte = static_cast<uint8_t>(text[i + k]);
      uint8_t low = k == 1 ? lead.second_low : uint8_t{0x80};
      uint8_t high = k == 1 ? lead.second_high : uint8_t{0xBF};
      if (byte < low || byte > high) {
        return i;
      }
    }
    i += 1 + lead.following;
  }
  return std::string_view::npos;
}

}  // namespace snug
