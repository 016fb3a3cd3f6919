// What kind of character a code point is: one table for all of Unicode, because splitting looks every
// character up.
#pragma once

#include <cstdint>
#include <vector>

namespace snug {

// Bits of a character's class. White space is Unicode's White_Space property.
inline constexpr uint8_t kLetter = 1;
inline constexpr uint8_t kNumber = 2;
inline constexpr uint8_t kWhiteSpace = 4;
inline constexpr uint8_t kMark = 8;
inline constexpr uint8_t kPunctuation = 16;  // general category P, and ASCII's signs such as $ and +
inline constexpr uint8_t kNewline = 32;      // carriage return and line feed only
inline constexpr uint8_t kOldMark = 64;      // a mark that normalizers know; see unicode_ranges.h

class CharacterClasses {
 public:
  static const CharacterClasses& instance();

  // `codepoint` is at most U+10FFFF.
  uint8_t operator[](uint32_t codepoint) const { return classes_[codepoint]; }

 private:
  CharacterClasses();
  std::vector<uint8_t> classes_;
};

bool is_white_space(uint32_t codepoint);
// What a regular expression's \w matches: letters, marks, digits, connecting punctuation, joiners.
bool is_word_character(uint32_t codepoint);

}  // namespace snug
