// Cutting text apart and replacing parts of it, as Python's strings do.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

size_t character_bytes(std::string_view text) {
  Utf8Unit unit = first_utf8_unit(text);
  return unit.status == Utf8Status::valid ? unit.length_bytes : 1;
}

bool starts_with_space(std::string_view text) {
  Utf8Unit unit = first_utf8_unit(text);
  return unit.status == Utf8Status::valid && is_space(unit.codepoint);
}

struct WordPlace {
  size_t begin = 0;
  size_t end = 0;
};

// The words between white space.
std::vector<WordPlace> find_words(std::string_view text) {
  std::vector<WordPlace> words;
  bool in_word = false;
  for (size_t at = 0; at < text.size(); at += character_bytes(text.substr(at))) {
    if (starts_with_space(text.substr(at))) {
      in_word = false;
      continue;
    }
    if (!in_word) {
      words.push_back({at, at});
      in_word = true;
    }
    words.back().end = at + character_bytes(text.substr(at));
  }
  return words;
}

// The words; of more than `limit`, the surplus ones stay together as they are, with the space around them.
std::vector<std::string> split_at_space(std::string_view text, int64_t limit, bool from_right) {
  std::vector<WordPlace> words = find_words(text);
  if (limit >= 0 && words.size() > static_cast<size_t>(limit)) {
    auto kept = static_cast<std::ptrdiff_t>(limit);
    if (from_right) {
      auto joined_end = words.end() - kept;
      WordPlace joined = {0, (joined_end - 1)->end};
      words.erase(words.begin(), joined_end - 1);
      words.front() = joined;
    } else {
      (words.begin() + kept)->end = text.size();
      words.erase(words.begin() + kept + 1, words.end());
    }
  }
  std::vector<std::string> pieces;
  for (const WordPlace& word : words) {
    pieces.emplace_back(text.substr(word.begin, word.end - word.begin));
  }
  return pieces;
}

// The bytes of the line end that the text starts with; 0 if it starts with something else.
size_t line_end_bytes(std::string_view text) {
  if (text.starts_with("\r\n")) {
    return 2;
  }
  Utf8Unit unit = first_utf8_unit(text);
  bool ends = unit.status == Utf8Status::valid &&
              ((unit.codepoint >= 0x0A && unit.codepoint <= 0x0D) ||
               (unit.codepoint >= 0x1C && unit.codepoint <= 0x1E) || unit.codepoint == 0x85 ||
               unit.codepoint == 0x2028 || unit.codepoint == 0x2029);
  return ends ? unit.length_bytes : 0;
}

}  // namespace

std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator,
                               int64_t limit) {
  if (!separator) {
    return split_at_space(text, limit, false);
  }
  std::vector<std::string> pieces;
  while (limit < 0 || static_cast<int64_t>(pieces.size()) < limit) {
    size_t found = text.find(*separator);
    if (found == std::string_view::npos) {
      break;
    }
    pieces.emplace_back(text.substr(0, found));
    text.remove_prefix(found + separator->size());
  }
  pieces.emplace_back(text);
  return pieces;
}

std::vector<std::string> split_from_right(std::string_view text, std::optional<std::string_view> separator,
                                          int64_t limit) {
  if (!separator) {
    return split_at_space(text, limit, true);
  }
  std::vector<std::string> pieces;
  while (limit < 0 || static_cast<int64_t>(pieces.size()) < limit) {
    size_t found = text.rfind(*separator);
    if (found == std::string_view::npos) {
      break;
    }
    pieces.emplace_back(text.substr(found + separator->size()));
    text = text.substr(0, found);
  }
  pieces.emplace_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end_bytes = line_end_bytes(text.substr(at));
    if (end_bytes == 0) {
      at += character_bytes(text.substr(at));
      continue;
    }
    lines.emplace_back(text.substr(begin, at - begin + (keep_ends ? end_bytes : 0)));
    at += end_bytes;
    begin = at;
  }
  if (begin < text.size()) {
    lines.emplace_back(text.substr(begin));
  }
  return lines;
}

std::string replace(std::string_view text, std::string_view old_part, std::string_view new_part,
                    int64_t limit) {
  std::string out;
  int64_t count = 0;
  if (old_part.empty()) {  // the new part goes around every character
    while (limit < 0 || count < limit) {
      out += new_part;
      ++count;
      if (text.empty()) {
        return out;
      }
      size_t length = character_bytes(text);
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
    out += text;
    return out;
  }
  size_t found = text.find(old_part);
  while (found != std::string_view::npos && (limit < 0 || count < limit)) {
    out += text.substr(0, found);
    out += new_part;
    text.remove_prefix(found + old_part.size());
    ++count;
    found = text.find(old_part);
  }
  out += text;
  return out;
}

int64_t count_occurrences(std::string_view text, std::string_view part) {
  if (part.empty()) {
    return count_characters(text) + 1;
  }
  int64_t count = 0;
  for (size_t found = text.find(part); found != std::string_view::npos; found = text.find(part)) {
    text.remove_prefix(found + part.size());
    ++count;
  }
  return count;
}

}  // namespace snug::jinja
