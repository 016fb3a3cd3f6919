// The alphabet of byte-level vocabularies: each of the 256 bytes as one printable character.
#include "text/tokenizer/byte_alphabet.h"

#include "base/utf8.h"

namespace snug {

namespace {

// U+0100 plus the number of bytes that do not stand for themselves: 0-32, 127-160 and 173.
constexpr uint32_t kAlphabetEnd = 0x100 + 33 + 34 + 1;

bool stands_for_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<uint32_t, 256> make_codepoints() {
  std::array<uint32_t, 256> codepoints{};
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    codepoints[byte] = stands_for_itself(byte) ? byte : next++;
  }
  return codepoints;
}

std::array<std::string, 256> make_alphabet() {
  std::array<std::string, 256> alphabet;
  std::array<uint32_t, 256> codepoints = make_codepoints();
  for (size_t byte = 0; byte < 256; ++byte) {
    append_utf8(alphabet[byte], codepoints[byte]);
  }
  return alphabet;
}

std::array<int16_t, kAlphabetEnd> make_bytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  std::array<uint32_t, 256> codepoints = make_codepoints();
  for (size_t byte = 0; byte < 256; ++byte) {
    bytes[codepoints[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

}  // namespace

const std::array<std::string, 256>& byte_alphabet() {
  static const std::array<std::string, 256> kAlphabet = make_alphabet();
  return kAlphabet;
}

std::optional<std::string> bytes_of_piece(std::string_view piece) {
  static const std::array<int16_t, kAlphabetEnd> kBytes = make_bytes();
  std::string bytes;
  while (!piece.empty()) {
    Utf8Unit unit = first_utf8_unit(piece);
    if (unit.status != Utf8Status::valid || unit.codepoint >= kAlphabetEnd || kBytes[unit.codepoint] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kBytes[unit.codepoint]);
    piece.remove_prefix(unit.length_bytes);
  }
  return bytes;
}

}  // namespace snug
