// Python's string operations on UTF-8: characters.
#include "text/jinja/text.h"

#include <utf8proc.h>

#include "base/utf8.h"

namespace snug::jinja {

namespace {

bool is_continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0U) == 0x80U;
}

utf8proc_category_t category(uint32_t codepoint) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(codepoint));
}

bool is_upper(uint32_t codepoint) {
  return category(codepoint) == UTF8PROC_CATEGORY_LU;
}
bool is_title(uint32_t codepoint) {
  return category(codepoint) == UTF8PROC_CATEGORY_LT;
}
bool is_lower(uint32_t codepoint) {
  return category(codepoint) == UTF8PROC_CATEGORY_LL;
}
bool is_letter(uint32_t codepoint) {
  utf8proc_category_t kind = category(codepoint);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_digit(uint32_t codepoint) {
  return category(codepoint) == UTF8PROC_CATEGORY_ND;
}
bool is_numeric(uint32_t codepoint) {
  utf8proc_category_t kind = category(codepoint);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

}  // namespace

Character first_character(std::string_view text) {
  Utf8Unit unit = first_utf8_unit(text);
  if (unit.status != Utf8Status::valid) {
    return {static_cast<uint8_t>(text[0]), 1, false};
  }
  return {unit.codepoint, unit.length_bytes, true};
}

Character last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && is_continuation(text[begin])) {
    --begin;
  }
  Character last = first_character(text.substr(begin));
  if (last.valid && begin + last.length_bytes == text.size()) {
    return last;
  }
  return {static_cast<uint8_t>(text.back()), 1, false};
}

std::string_view take_character(std::string_view& text) {
  std::string_view first = text.substr(0, first_character(text).length_bytes);
  text.remove_prefix(first.size());
  return first;
}

bool is_space(uint32_t codepoint) {
  return (codepoint >= 0x09 && codepoint <= 0x0D) || (codepoint >= 0x1C && codepoint <= 0x20) ||
         codepoint == 0x85 || codepoint == 0xA0 || codepoint == 0x1680 ||
         (codepoint >= 0x2000 && codepoint <= 0x200A) || codepoint == 0x2028 || codepoint == 0x2029 ||
         codepoint == 0x202F || codepoint == 0x205F || codepoint == 0x3000;
}

bool is_word(uint32_t codepoint) {
  return codepoint == '_' || is_letter(codepoint) || is_numeric(codepoint);
}

bool is_printable(const Character& character) {
  utf8proc_category_t kind = category(character.codepoint);
  return character.codepoint == ' ' ||
         (character.valid && kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS);
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(static_cast<uint8_t>(text[0]) < 0x80 ? 1 : first_character(text).length_bytes);
    ++count;
  }
  return count;
}

size_t byte_of_character(std::string_view text, int64_t index) {
  size_t at = 0;
  for (int64_t i = 0; i < index && at < text.size(); ++i) {
    at += first_character(text.substr(at)).length_bytes;
  }
  return at;
}

CharacterSet::CharacterSet(Runtime& runtime, std::string_view characters) {
  constexpr size_t kCodepoints = 0x110000;
  runtime.count_reading(characters.size());
  while (!characters.empty()) {
    Character character = first_character(characters);
    characters.remove_prefix(character.length_bytes);
    if (character.codepoint < 0x80 || !character.valid) {
      bytes_.set(character.codepoint);
      continue;
    }
    if (beyond_.empty()) {
      runtime.count_bytes(kCodepoints / 8);
      beyond_.resize(kCodepoints);
    }
    beyond_[character.codepoint] = true;
  }
}

bool CharacterSet::holds(const Character& character) const {
  if (character.codepoint < 0x80 || !character.valid) {
    return bytes_.test(character.codepoint);
  }
  return !beyond_.empty() && beyond_[character.codepoint];
}

std::string_view strip(std::string_view text, StripSides sides, const CharacterSet* characters) {
  auto goes = [&](const Character& character) {
    return characters != nullptr ? characters->holds(character)
                                 : character.valid && is_space(character.codepoint);
  };
  while (sides.left && !text.empty() && goes(first_character(text))) {
    text.remove_prefix(first_character(text).length_bytes);
  }
  while (sides.right && !text.empty() && goes(last_character(text))) {
    text.remove_suffix(last_character(text).length_bytes);
  }
  return text;
}

bool all_characters(std::string_view text, CharacterTest test) {
  bool any_cased = false;
  bool is_empty = text.empty();
  while (!text.empty()) {
    uint32_t codepoint = first_character(take_character(text)).codepoint;
    bool holds = true;
    switch (test) {
      case CharacterTest::digit:
        holds = is_digit(codepoint);
        break;
      case CharacterTest::letter:
        holds = is_letter(codepoint);
        break;
      case CharacterTest::letter_or_digit:
        holds = is_letter(codepoint) || is_numeric(codepoint);
        break;
      case CharacterTest::space:
        holds = is_space(codepoint);
        break;
      case CharacterTest::upper:
        holds = !is_lower(codepoint) && !is_title(codepoint);
        any_cased = any_cased || is_upper(codepoint);
        break;
      case CharacterTest::lower:
        holds = !is_upper(codepoint) && !is_title(codepoint);
        any_cased = any_cased || is_lower(codepoint);
        break;
    }
    if (!holds) {
      return false;
    }
  }
  bool needs_cased = test == CharacterTest::upper || test == CharacterTest::lower;
  return needs_cased ? any_cased : !is_empty;
}

void append_escaped_html(TextBuilder& out, std::string_view text) {
  for (char character : text) {
    switch (character) {
      case '&':
        out.append("&amp;");
        break;
      case '<':
        out.append("&lt;");
        break;
      case '>':
        out.append("&gt;");
        break;
      case '\'':
        out.append("&#39;");
        break;
      case '"':
        out.append("&#34;");
        break;
      default:
        out.append(character);
    }
  }
}

}  // namespace snug::jinja
