// Unicode's normalization forms, letter case and accents, on text that is UTF-8.
#include "text/unicode/forms.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode/character_class.h"
#include "text/unicode/ranges.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

utf8proc_option_t options_of(UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == UnicodeForm::nfc || form == UnicodeForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  options |= form == UnicodeForm::nfkc || form == UnicodeForm::nfkd ? UTF8PROC_COMPAT : 0;
  return static_cast<utf8proc_option_t>(options);
}

void append_normalized(std::string_view text, UnicodeForm form, std::string& result) {
  if (text.empty()) {
    return;
  }
  utf8proc_uint8_t* mapped = nullptr;
  utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_of(form));
  std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length < 0) {
    throw environment_error(
        fmt::format("cannot normalize a text of {} bytes: {}", text.size(), utf8proc_errmsg(length)));
  }
  result.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

// Decompositions that Unicode got after the tables of the reference implementation's normalizers were made.
constexpr CodepointRange kLateDecompositions[] = {{0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},   {0xAB69, 0xAB69},
                                                  {0x10781, 0x107BA}, {0x11938, 0x11938}, {0x1CCD6, 0x1CCF9},
                                                  {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

// Characters that the reference implementation's normalizers do not know, and so leave where and as they are.
// Models were trained with the ids that this gave.
bool is_opaque(uint32_t codepoint) {
  uint8_t kind = CharacterClasses::instance()[codepoint];
  return ((kind & kMark) != 0 && (kind & kOldMark) == 0) ||
         std::any_of(std::begin(kLateDecompositions), std::end(kLateDecompositions),
                     [&](const CodepointRange& range) {
                       return codepoint >= range.first && codepoint <= range.last;
                     });
}

// Which characters have a part in NFC: those that it changes, that reorder, or that join the one before. Text
// without them is composed; around one, only the stretch back to the last other character is looked at.
class NfcTable {
 public:
  static const NfcTable& instance() {
    static const NfcTable kTable;
    return kTable;
  }
  bool takes_part(uint32_t codepoint) const { return parts_[codepoint]; }

 private:
  NfcTable() : parts_(0x110000, false) {
    auto mark_range = [&](uint32_t first, uint32_t last) {
      for (uint32_t codepoint = first; codepoint <= last; ++codepoint) {
        parts_[codepoint] = true;
      }
    };
    mark_range(0x1161, 0x1175);  // Hangul vowels and
    mark_range(0x11A8, 0x11C2);  // final consonants join the syllable before them
    for (int32_t codepoint = 0xC0; codepoint < 0x110000; ++codepoint) {
      bool hangul = codepoint >= 0xAC00 && codepoint <= 0xD7A3;
      bool surrogate = codepoint >= 0xD800 && codepoint <= 0xDFFF;
      if (!hangul && !surrogate) {
        examine(codepoint);
      }
    }
    for (size_t codepoint = 0; codepoint < parts_.size(); ++codepoint) {
      if (parts_[codepoint] && is_opaque(static_cast<uint32_t>(codepoint))) {
        parts_[codepoint] = false;
      }
    }
  }

  void examine(int32_t codepoint) {
    const utf8proc_property_t* property = utf8proc_get_property(codepoint);
    if (property->combining_class != 0) {
      parts_[static_cast<size_t>(codepoint)] = true;
    }
    if (property->decomp_seqindex == UINT16_MAX || property->decomp_type != 0) {
      return;  // no canonical decomposition
    }
    std::array<utf8proc_int32_t, 18> parts{};
    int boundary = 0;
    utf8proc_ssize_t count =
        utf8proc_decompose_char(codepoint, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &boundary);
    std::string alone;
    append_utf8(alone, static_cast<uint32_t>(codepoint));
    std::string composed;
    append_normalized(alone, UnicodeForm::nfc, composed);
    if (composed != alone) {
      parts_[static_cast<size_t>(codepoint)] = true;
    } else if (count > 1) {
      parts_[static_cast<size_t>(parts[static_cast<size_t>(count) - 1])] = true;
    }
  }

  std::vector<bool> parts_;
};

bool normalize_nfc_where_needed(std::string_view text, std::string& result) {
  const NfcTable& table = NfcTable::instance();
  bool changed = false;
  size_t copied = 0;    // text before it is in `result`, once `changed`
  size_t previous = 0;  // where the last character that takes no part starts
  size_t position = 0;
  while (position < text.size()) {
    if (static_cast<uint8_t>(text[position]) < 0xCC) {  // below U+0300: nothing to do, two bytes at most
      previous = position;
      position += utf8_length_bytes(text[position]);
      continue;
    }
    Character character = character_at(text, position);
    if (!table.takes_part(character.codepoint)) {
      previous = position;
      position += character.length_bytes;
      continue;
    }
    size_t end = position;
    while (end < text.size()) {
      Character next = character_at(text, end);
      if (!table.takes_part(next.codepoint)) {
        break;
      }
      end += next.length_bytes;
    }
    if (previous < position && is_opaque(character_at(text, previous).codepoint)) {
      previous = position;  // nothing joins such a character, or changes places with it
    }
    if (!changed) {
      result.clear();
      result.reserve(text.size());
      changed = true;
    }
    result.append(text.substr(copied, previous - copied));
    append_normalized(text.substr(previous, end - previous), UnicodeForm::nfc, result);
    copied = end;
    previous = end;
    position = end;
  }
  if (changed) {
    result.append(text.substr(copied));
  }
  return changed;
}

bool is_ascii(std::string_view text) {
  for (char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool normalize_unicode(std::string_view text, UnicodeForm form, std::string& result) {
  if (form == UnicodeForm::nfc) {
    return normalize_nfc_where_needed(text, result);
  }
  if (is_ascii(text)) {
    return false;
  }
  result.clear();
  size_t done = 0;
  for (size_t position = 0; position < text.size();) {
    Character character = character_at(text, position);
    if (character.codepoint >= 0x300 && is_opaque(character.codepoint)) {
      append_normalized(text.substr(done, position - done), form, result);
      result.append(text.substr(position, character.length_bytes));
      done = position + character.length_bytes;
    }
    position += character.length_bytes;
  }
  append_normalized(text.substr(done), form, result);
  return true;
}

std::string normalize_nfc(std::string_view text) {
  std::string valid = replace_invalid_utf8(text);
  std::string result;
  return normalize_nfc_where_needed(valid, result) ? result : valid;
}

void lowercase(std::string_view text, std::string& result) {
  result.clear();
  for (size_t position = 0; position < text.size();) {
    Character character = character_at(text, position);
    if (character.codepoint == 0x130) {  // the one whose small form is two characters
      result += "i\u0307";
    } else {
      append_utf8(result, static_cast<uint32_t>(
                              utf8proc_tolower(static_cast<utf8proc_int32_t>(character.codepoint))));
    }
    position += character.length_bytes;
  }
}

void strip_accents(std::string_view text, std::string& result) {
  const CharacterClasses& classes = CharacterClasses::instance();
  result.clear();
  for (size_t position = 0; position < text.size();) {
    Character character = character_at(text, position);
    if ((classes[character.codepoint] & kOldMark) == 0) {
      result.append(text.substr(position, character.length_bytes));
    }
    position += character.length_bytes;
  }
}

}  // namespace snug
