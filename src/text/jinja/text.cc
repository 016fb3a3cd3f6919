// Python's string operations on UTF-8.
#include "text/jinja/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace snug::jinja {

namespace {

struct Character {
  uint32_t codepoint = 0;
  size_t length_bytes = 1;
  bool valid = true;
};

Character first_character(std::string_view text) {
  Utf8Unit unit = first_utf8_unit(text);
  if (unit.status != Utf8Status::valid) {
    return {static_cast<uint8_t>(text[0]), 1, false};
  }
  return {unit.codepoint, unit.length_bytes, true};
}

bool is_continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0U) == 0x80U;
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
bool is_cased(uint32_t codepoint) {
  return is_upper(codepoint) || is_lower(codepoint) || is_title(codepoint);
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

// The letters, out of those that people write, whose other case is more than one character; utf8proc maps
// single characters only.
std::string_view special_upper(uint32_t codepoint) {
  switch (codepoint) {
    case 0xDF:
      return "SS";
    case 0x149:
      return "\u02BCN";
    case 0xFB00:
      return "FF";
    case 0xFB01:
      return "FI";
    case 0xFB02:
      return "FL";
    case 0xFB03:
      return "FFI";
    case 0xFB04:
      return "FFL";
    case 0xFB05:
    case 0xFB06:
      return "ST";
    default:
      return {};
  }
}

void append_upper(std::string& out, uint32_t codepoint) {
  if (std::string_view special = special_upper(codepoint); !special.empty()) {
    out += special;
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(codepoint))));
  }
}

void append_title(std::string& out, uint32_t codepoint) {
  if (std::string_view special = special_upper(codepoint); !special.empty()) {
    std::string_view first = special.substr(0, first_character(special).length_bytes);
    out += first;
    out += to_lower(special.substr(first.size()));
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(codepoint))));
  }
}

// A capital sigma at the end of a word has its own small letter: no cased letter after it, one before it.
bool is_final_sigma(std::string_view before, std::string_view after) {
  auto skipped = [](uint32_t codepoint) {
    utf8proc_category_t kind = category(codepoint);
    return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_CF || codepoint == '\'' ||
           codepoint == 0x2019 || codepoint == 0xB7;
  };
  while (!before.empty() && skipped(last_character(before).codepoint)) {
    before.remove_suffix(last_character(before).length_bytes);
  }
  while (!after.empty() && skipped(first_character(after).codepoint)) {
    after.remove_prefix(first_character(after).length_bytes);
  }
  return !before.empty() && is_cased(last_character(before).codepoint) &&
         (after.empty() || !is_cased(first_character(after).codepoint));
}

void append_lower(std::string& out, std::string_view text, size_t at, Character character) {
  if (character.codepoint == 0x130) {
    out += "i\u0307";
  } else if (character.codepoint == 0x3A3) {
    bool is_final = is_final_sigma(text.substr(0, at), text.substr(at + character.length_bytes));
    append_utf8(out, is_final ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out,
                static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.codepoint))));
  }
}

// Calls `append(out, position, character)` for each character; what is not UTF-8 stays as it is.
template <typename Append>
std::string map_characters(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    Character character = first_character(text.substr(at));
    if (character.valid) {
      append(out, at, character);
    } else {
      out += text[at];
    }
    at += character.length_bytes;
  }
  return out;
}

}  // namespace

bool is_space(uint32_t codepoint) {
  return (codepoint >= 0x09 && codepoint <= 0x0D) || (codepoint >= 0x1C && codepoint <= 0x20) ||
         codepoint == 0x85 || codepoint == 0xA0 || codepoint == 0x1680 ||
         (codepoint >= 0x2000 && codepoint <= 0x200A) || codepoint == 0x2028 || codepoint == 0x2029 ||
         codepoint == 0x202F || codepoint == 0x205F || codepoint == 0x3000;
}

bool is_word(uint32_t codepoint) {
  return codepoint == '_' || is_letter(codepoint) || is_numeric(codepoint);
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(static_cast<uint8_t>(text[0]) < 0x80 ? 1 : first_character(text).length_bytes);
    ++count;
  }
  return count;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    size_t length = first_character(text).length_bytes;
    result.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return result;
}

size_t byte_of_character(std::string_view text, int64_t index) {
  size_t at = 0;
  for (int64_t i = 0; i < index && at < text.size(); ++i) {
    at += first_character(text.substr(at)).length_bytes;
  }
  return at;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, StripSides sides) {
  auto goes = [&](const Character& character, std::string_view bytes) {
    return chars ? chars->find(bytes) != std::string_view::npos
                 : character.valid && is_space(character.codepoint);
  };
  while (sides.left && !text.empty()) {
    Character first = first_character(text);
    if (!goes(first, text.substr(0, first.length_bytes))) {
      break;
    }
    text.remove_prefix(first.length_bytes);
  }
  while (sides.right && !text.empty()) {
    Character last = last_character(text);
    if (!goes(last, text.substr(text.size() - last.length_bytes))) {
      break;
    }
    text.remove_suffix(last.length_bytes);
  }
  return text;
}

std::string to_upper(std::string_view text) {
  return map_characters(
      text, [](std::string& out, size_t, Character character) { append_upper(out, character.codepoint); });
}

std::string to_lower(std::string_view text) {
  return map_characters(text, [&](std::string& out, size_t at, Character character) {
    append_lower(out, text, at, character);
  });
}

std::string capitalize(std::string_view text) {
  return map_characters(text, [&](std::string& out, size_t at, Character character) {
    if (at == 0) {
      append_title(out, character.codepoint);
    } else {
      append_lower(out, text, at, character);
    }
  });
}

std::string to_title(std::string_view text) {
  bool after_cased = false;
  return map_characters(text, [&](std::string& out, size_t at, Character character) {
    if (after_cased) {
      append_lower(out, text, at, character);
    } else {
      append_title(out, character.codepoint);
    }
    after_cased = is_cased(character.codepoint);
  });
}

std::string to_title_by_words(std::string_view text) {
  std::string out;
  auto begins_word = [](const Character& character) {
    return character.valid && (is_space(character.codepoint) ||
                               (character.codepoint < 0x80 &&
                                std::string_view("-({[<").find(static_cast<char>(character.codepoint)) !=
                                    std::string_view::npos));
  };
  while (!text.empty()) {
    size_t length = 0;
    bool is_separator = begins_word(first_character(text));
    while (length < text.size() && begins_word(first_character(text.substr(length))) == is_separator) {
      length += first_character(text.substr(length)).length_bytes;
    }
    std::string_view word = text.substr(0, length);
    size_t first = first_character(word).length_bytes;
    out += to_upper(word.substr(0, first));
    out += to_lower(word.substr(first));
    text.remove_prefix(length);
  }
  return out;
}

bool all_characters(std::string_view text, CharacterTest test) {
  bool any_cased = false;
  for (std::string_view bytes : characters(text)) {
    uint32_t codepoint = first_character(bytes).codepoint;
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
  return needs_cased ? any_cased : !text.empty();
}

std::string in_python_quotes(std::string_view text) {
  char quote =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::string_view bytes : characters(text)) {
    Character character = first_character(bytes);
    utf8proc_category_t kind = category(character.codepoint);
    if (bytes[0] == quote || bytes[0] == '\\') {
      out += '\\';
      out += bytes;
    } else if (bytes[0] == '\n') {
      out += "\\n";
    } else if (bytes[0] == '\r') {
      out += "\\r";
    } else if (bytes[0] == '\t') {
      out += "\\t";
    } else if (character.codepoint == ' ' ||
               (character.valid && kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS)) {
      out += bytes;
    } else if (character.codepoint < 0x100) {
      out += fmt::format("\\x{:02x}", character.codepoint);
    } else if (character.codepoint < 0x10000) {
      out += fmt::format("\\u{:04x}", character.codepoint);
    } else {
      out += fmt::format("\\U{:08x}", character.codepoint);
    }
  }
  return out + quote;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char character : text) {
    switch (character) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += character;
    }
  }
  return out;
}

}  // namespace snug::jinja
