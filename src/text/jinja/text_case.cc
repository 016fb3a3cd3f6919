// Upper and lower case, as Python's strings change it.
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

utf8proc_category_t category(uint32_t codepoint) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(codepoint));
}

bool is_cased(uint32_t codepoint) {
  utf8proc_category_t kind = category(codepoint);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

void append_codepoint(TextBuilder& out, uint32_t codepoint) {
  std::string bytes;
  append_utf8(bytes, codepoint);
  out.append(bytes);
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

void append_upper_character(TextBuilder& out, uint32_t codepoint) {
  if (std::string_view special = special_upper(codepoint); !special.empty()) {
    out.append(special);
  } else {
    append_codepoint(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(codepoint))));
  }
}

void append_title_character(TextBuilder& out, uint32_t codepoint) {
  if (std::string_view special = special_upper(codepoint); !special.empty()) {
    std::string_view first = special.substr(0, first_character(special).length_bytes);
    out.append(first);
    append_lower(out, special.substr(first.size()));
  } else {
    append_codepoint(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(codepoint))));
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

void append_lower_character(TextBuilder& out, std::string_view text, size_t at, Character character) {
  if (character.codepoint == 0x130) {
    out.append("i\u0307");
  } else if (character.codepoint == 0x3A3) {
    bool is_final = is_final_sigma(text.substr(0, at), text.substr(at + character.length_bytes));
    append_codepoint(out, is_final ? 0x3C2 : 0x3C3);
  } else {
    append_codepoint(
        out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.codepoint))));
  }
}

// Calls `append(position, character)` for each character; what is not UTF-8 stays as it is.
template <typename Append>
void map_characters(TextBuilder& out, std::string_view text, Append append) {
  for (size_t at = 0; at < text.size();) {
    Character character = first_character(text.substr(at));
    if (character.valid) {
      append(at, character);
    } else {
      out.append(text[at]);
    }
    at += character.length_bytes;
  }
}

}  // namespace

void append_upper(TextBuilder& out, std::string_view text) {
  map_characters(out, text,
                 [&](size_t, Character character) { append_upper_character(out, character.codepoint); });
}

void append_lower(TextBuilder& out, std::string_view text) {
  map_characters(out, text,
                 [&](size_t at, Character character) { append_lower_character(out, text, at, character); });
}

void append_capitalized(TextBuilder& out, std::string_view text) {
  map_characters(out, text, [&](size_t at, Character character) {
    if (at == 0) {
      append_title_character(out, character.codepoint);
    } else {
      append_lower_character(out, text, at, character);
    }
  });
}

void append_title(TextBuilder& out, std::string_view text) {
  bool after_cased = false;
  map_characters(out, text, [&](size_t at, Character character) {
    if (after_cased) {
      append_lower_character(out, text, at, character);
    } else {
      append_title_character(out, character.codepoint);
    }
    after_cased = is_cased(character.codepoint);
  });
}

void append_title_by_words(TextBuilder& out, std::string_view text) {
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
    append_upper(out, word.substr(0, first));
    append_lower(out, word.substr(first));
    text.remove_prefix(length);
  }
}

}  // namespace snug::jinja
