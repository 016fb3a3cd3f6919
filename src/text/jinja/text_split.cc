// Cutting text apart and replacing parts of it, as Python's strings do.
#include <algorithm>
#include <cstring>

#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

bool starts_with_space(std::string_view text) {
  Character first = first_character(text);
  return first.valid && is_space(first.codepoint);
}

bool ends_with_space(std::string_view text) {
  Character last = last_character(text);
  return last.valid && is_space(last.codepoint);
}

// Cuts the white space and the word behind it off; "" where there is no word left.
std::string_view take_word(std::string_view& text) {
  text = strip(text, {.left = true, .right = false});
  size_t length = 0;
  while (length < text.size() && !starts_with_space(text.substr(length))) {
    length += first_character(text.substr(length)).length_bytes;
  }
  std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

std::string_view take_last_word(std::string_view& text) {
  text = strip(text, {.left = false, .right = true});
  size_t begin = text.size();
  while (begin > 0 && !ends_with_space(text.substr(0, begin))) {
    begin -= last_character(text.substr(0, begin)).length_bytes;
  }
  std::string_view word = text.substr(begin);
  text = text.substr(0, begin);
  return word;
}

bool below(size_t count, int64_t limit) {
  return limit < 0 || count < static_cast<size_t>(limit);
}

// The bytes of the line end that the text starts with; 0 if it starts with something else.
size_t line_end_bytes(std::string_view text) {
  if (text.starts_with("\r\n")) {
    return 2;
  }
  Character first = first_character(text);
  bool ends =
      first.valid && ((first.codepoint >= 0x0A && first.codepoint <= 0x0D) ||
                      (first.codepoint >= 0x1C && first.codepoint <= 0x1E) || first.codepoint == 0x85 ||
                      first.codepoint == 0x2028 || first.codepoint == 0x2029);
  return ends ? first.length_bytes : 0;
}

}  // namespace

size_t find_text(Runtime& runtime, std::string_view text, std::string_view part) {
  size_t at = 0;
  while (part.size() <= text.size() - at) {
    if (part.empty()) {
      return at;
    }
    const void* hit = std::memchr(text.data() + at, part[0], text.size() - at - part.size() + 1);
    if (hit == nullptr) {
      break;
    }
    auto found = static_cast<size_t>(static_cast<const char*>(hit) - text.data());
    size_t same = 1;
    while (same < part.size() && text[found + same] == part[same]) {
      ++same;
    }
    runtime.count_reading(found - at + same);
    if (same == part.size()) {
      return found;
    }
    at = found + 1;
  }
  runtime.count_reading(text.size() - at);
  return std::string_view::npos;
}

size_t find_last_text(Runtime& runtime, std::string_view text, std::string_view part) {
  for (size_t places = text.size() + 1 - std::min(part.size(), text.size() + 1); places > 0; --places) {
    size_t same = 0;
    while (same < part.size() && text[places - 1 + same] == part[same]) {
      ++same;
    }
    runtime.count_reading(same + 1);
    if (same == part.size()) {
      return places - 1;
    }
  }
  return std::string_view::npos;
}

void split(ListBuilder& out, std::string_view text, std::optional<std::string_view> separator,
           int64_t limit) {
  if (!separator) {
    std::string_view rest = text;
    while (below(out.size(), limit)) {
      std::string_view word = take_word(rest);
      if (word.empty()) {
        return;
      }
      out.append_text(word);
    }
    rest = strip(rest, {.left = true, .right = false});
    if (!rest.empty()) {  // words beyond the limit stay together, with the space after them
      out.append_text(rest);
    }
    return;
  }
  while (below(out.size(), limit)) {
    size_t found = find_text(out.runtime(), text, *separator);
    if (found == std::string_view::npos) {
      break;
    }
    out.append_text(text.substr(0, found));
    text.remove_prefix(found + separator->size());
  }
  out.append_text(text);
}

void split_from_right(ListBuilder& out, std::string_view text, std::optional<std::string_view> separator,
                      int64_t limit) {
  if (!separator) {
    while (below(out.size(), limit)) {
      std::string_view word = take_last_word(text);
      if (word.empty()) {
        out.reverse();
        return;
      }
      out.append_text(word);
    }
    text = strip(text, {.left = false, .right = true});
    if (!text.empty()) {
      out.append_text(text);
    }
    out.reverse();
    return;
  }
  while (below(out.size(), limit)) {
    size_t found = find_last_text(out.runtime(), text, *separator);
    if (found == std::string_view::npos) {
      break;
    }
    out.append_text(text.substr(found + separator->size()));
    text = text.substr(0, found);
  }
  out.append_text(text);
  out.reverse();
}

std::string_view take_line(std::string_view& text, bool keep_end) {
  size_t length = 0;
  size_t end_bytes = 0;
  while (length < text.size() && (end_bytes = line_end_bytes(text.substr(length))) == 0) {
    length += first_character(text.substr(length)).length_bytes;
  }
  std::string_view line = text.substr(0, length + (keep_end ? end_bytes : 0));
  text.remove_prefix(length + end_bytes);
  return line;
}

void append_replaced(TextBuilder& out, std::string_view text, std::string_view old_part,
                     std::string_view new_part, int64_t limit) {
  size_t count = 0;
  if (old_part.empty()) {  // the new part goes around every character
    while (below(count, limit)) {
      out.append(new_part);
      ++count;
      if (text.empty()) {
        return;
      }
      out.append(take_character(text));
    }
    out.append(text);
    return;
  }
  while (below(count, limit)) {
    size_t found = find_text(out.runtime(), text, old_part);
    if (found == std::string_view::npos) {
      break;
    }
    out.append(text.substr(0, found));
    out.append(new_part);
    text.remove_prefix(found + old_part.size());
    ++count;
  }
  out.append(text);
}

int64_t count_occurrences(Runtime& runtime, std::string_view text, std::string_view part) {
  if (part.empty()) {
    return count_characters(text) + 1;
  }
  int64_t count = 0;
  for (size_t found = 0; (found = find_text(runtime, text, part)) != std::string_view::npos; ++count) {
    text.remove_prefix(found + part.size());
  }
  return count;
}

}  // namespace snug::jinja
