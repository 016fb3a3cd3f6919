// The alphabet of byte-level vocabularies: each of the 256 bytes is written as one printable character, so
// that a vocabulary is readable text. Printable Latin-1 stands for itself; the other bytes, in order, are
// U+0100 and up (a space is U+0120, "Ġ").
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

// The character of each byte, as UTF-8.
const std::array<std::string, 256>& byte_alphabet();

// The bytes that a piece of such a vocabulary stands for; nothing if it holds other characters.
std::optional<std::string> bytes_of_piece(std::string_view piece);

}  // namespace snug
