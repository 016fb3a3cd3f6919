// Character classes: one table for all of Unicode.
#include "text/unicode/character_class.h"

#include <utf8proc.h>

#include <cstddef>
#include <span>

#include "text/unicode/ranges.h"

namespace snug {

namespace {

constexpr size_t kCodepoints = 0x110000;
constexpr CodepointRange kWhiteSpaceRanges[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
constexpr CodepointRange kAsciiSigns[] = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};

}  // namespace

CharacterClasses::CharacterClasses() : classes_(kCodepoints, 0) {
  auto mark = [&](std::span<const CodepointRange> ranges, uint8_t bit) {
    for (const CodepointRange& range : ranges) {
      for (uint32_t codepoint = range.first; codepoint <= range.last; ++codepoint) {
        classes_[codepoint] = static_cast<uint8_t>(classes_[codepoint] | bit);
      }
    }
  };
  mark(letter_ranges(), kLetter);
  mark(number_ranges(), kNumber);
  mark(mark_ranges(), kMark);
  mark(old_mark_ranges(), kOldMark);
  mark(punctuation_ranges(), kPunctuation);
  mark(kAsciiSigns, kPunctuation);
  mark(kWhiteSpaceRanges, kWhiteSpace);
  constexpr CodepointRange kNewlines[] = {{'\n', '\n'}, {'\r', '\r'}};
  mark(kNewlines, kNewline);
}

const CharacterClasses& CharacterClasses::instance() {
  static const CharacterClasses kClasses;
  return kClasses;
}

bool is_white_space(uint32_t codepoint) {
  return (CharacterClasses::instance()[codepoint] & kWhiteSpace) != 0;
}

bool is_word_character(uint32_t codepoint) {
  uint8_t kind = CharacterClasses::instance()[codepoint];
  if ((kind & (kLetter | kMark)) != 0 || codepoint == 0x200C || codepoint == 0x200D) {
    return true;
  }
  // Numbers such as a half or a superscript two are not part of words; signs in circles are letters to \w.
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(codepoint));
  bool letter_like =
      (codepoint >= 0x24B6 && codepoint <= 0x24E9) || (codepoint >= 0x1F130 && codepoint <= 0x1F149) ||
      (codepoint >= 0x1F150 && codepoint <= 0x1F169) || (codepoint >= 0x1F170 && codepoint <= 0x1F189);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC || letter_like;
}

}  // namespace snug
