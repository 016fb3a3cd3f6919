// The regular expressions that most byte-level tokenizers split by, written out by hand.
#include "text/tokenizer/known_patterns.h"

#include <limits>

#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// Bytes of the contraction at `position` ('s, 're, ...), which is at an apostrophe; 0 if there is none.
size_t contraction_bytes(std::string_view text, size_t position, bool any_case) {
  auto at = [&](size_t i) -> char {
    char c = position + i < text.size() ? text[position + i] : '\0';
    return any_case ? lower(c) : c;
  };
  char first = at(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') {
    return 2;
  }
  if ((first == 'r' && at(2) == 'e') || (first == 'v' && at(2) == 'e') || (first == 'l' && at(2) == 'l')) {
    return 3;
  }
  // The long s is an s to a comparison that ignores case.
  return any_case && text.substr(position + 1).starts_with("\u017F") ? 3 : 0;
}

}  // namespace

const char* KnownPattern::gpt2_text() {
  return kGpt2;
}

std::optional<KnownPattern> KnownPattern::find(const std::string& expression) {
  if (expression == kGpt2) {
    return KnownPattern(Kind::gpt2, std::numeric_limits<int>::max());
  }
  if (expression == kLlama3) {
    return KnownPattern(Kind::llama3, 3);
  }
  if (expression == kQwen2) {
    return KnownPattern(Kind::llama3, 1);
  }
  return std::nullopt;
}

uint8_t KnownPattern::kind_at(std::string_view text, size_t position, size_t& length_bytes) const {
  Character character = character_at(text, position);
  length_bytes = character.length_bytes;
  return (*classes_)[character.codepoint];
}

size_t KnownPattern::skip(std::string_view text, size_t position, uint8_t wanted) const {
  size_t length = 0;
  while (position < text.size() && (kind_at(text, position, length) & wanted) != 0) {
    position += length;
  }
  return position;
}

size_t KnownPattern::skip_signs(std::string_view text, size_t position) const {
  size_t length = 0;
  while (position < text.size() &&
         (kind_at(text, position, length) & (kLetter | kNumber | kWhiteSpace)) == 0) {
    position += length;
  }
  return position;
}

// \s*[\r\n]+ where asked for, then \s+(?!\S), then \s+.
size_t KnownPattern::match_spaces(std::string_view text, size_t begin, bool stop_at_newline) const {
  size_t end = begin;
  size_t last = begin;           // where the last white space starts
  size_t after_newline = begin;  // where the last newline ends
  while (end < text.size()) {
    size_t length = 0;
    uint8_t kind = kind_at(text, end, length);
    if ((kind & kWhiteSpace) == 0) {
      break;
    }
    last = end;
    end += length;
    after_newline = (kind & kNewline) != 0 ? end : after_newline;
  }
  if (stop_at_newline && after_newline > begin) {
    return after_newline;
  }
  return end == text.size() || last == begin ? end : last;
}

size_t KnownPattern::match_gpt2(std::string_view text, size_t begin) const {
  if (text[begin] == '\'') {
    if (size_t bytes = contraction_bytes(text, begin, false); bytes > 0) {
      return begin + bytes;
    }
  }
  size_t start = begin + (text[begin] == ' ' && begin + 1 < text.size() ? 1 : 0);
  size_t length = 0;
  uint8_t kind = kind_at(text, start, length);
  if ((kind & kLetter) != 0) {
    return skip(text, start + length, kLetter);
  }
  if ((kind & kNumber) != 0) {
    return skip(text, start + length, kNumber);
  }
  if ((kind & kWhiteSpace) == 0) {
    return skip_signs(text, start + length);
  }
  return match_spaces(text, begin, false);
}

size_t KnownPattern::match_llama3(std::string_view text, size_t begin) const {
  if (text[begin] == '\'') {
    if (size_t bytes = contraction_bytes(text, begin, true); bytes > 0) {
      return begin + bytes;
    }
  }
  size_t length = 0;
  uint8_t kind = kind_at(text, begin, length);
  size_t second = begin + length;
  if ((kind & kLetter) != 0) {
    return skip(text, second, kLetter);
  }
  if ((kind & kNumber) != 0) {
    for (int digits = 1; digits < max_digits_ && second < text.size(); ++digits) {
      if ((kind_at(text, second, length) & kNumber) == 0) {
        break;
      }
      second += length;
    }
    return second;
  }
  uint8_t next = second < text.size() ? kind_at(text, second, length) : uint8_t{kWhiteSpace};
  if ((kind & kNewline) == 0 && (next & kLetter) != 0) {
    return skip(text, second + length, kLetter);
  }
  bool space_and_sign = text[begin] == ' ' && (next & (kLetter | kNumber | kWhiteSpace)) == 0;
  if ((kind & kWhiteSpace) == 0 || space_and_sign) {
    return skip(text, skip_signs(text, second), kNewline);
  }
  return match_spaces(text, begin, true);
}

size_t KnownPattern::match_end(std::string_view text, size_t begin) const {
  return kind_ == Kind::gpt2 ? match_gpt2(text, begin) : match_llama3(text, begin);
}

}  // namespace snug
