// Python's string operations on UTF-8: positions and lengths count characters, white space and letters are
// Unicode's. Bytes that are not UTF-8 count as one character each.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/builders.h"
#include "text/jinja/runtime.h"

namespace snug::jinja {

struct Character {
  uint32_t codepoint = 0;
  size_t length_bytes = 1;
  bool valid = true;  // else it is a byte that is no UTF-8
};
// Of text that is not empty.
Character first_character(std::string_view text);
Character last_character(std::string_view text);
// Cuts the first character off.
std::string_view take_character(std::string_view& text);

bool is_space(uint32_t codepoint);
// A character that a name may hold: a letter, digit or underscore.
bool is_word(uint32_t codepoint);
// As Python's repr() takes it: it is shown as it is, without an escape.
bool is_printable(const Character& character);

int64_t count_characters(std::string_view text);
// The byte at which the character number `index` begins; the text's size if there are fewer.
size_t byte_of_character(std::string_view text, int64_t index);

// Made once and asked for every character, as there may be as many of these as of those.
class CharacterSet {
 public:
  CharacterSet(Runtime& runtime, std::string_view characters);
  bool holds(const Character& character) const;

 private:
  std::bitset<256> bytes_;    // ASCII, and bytes that are no UTF-8
  std::vector<bool> beyond_;  // by codepoint, once there is one beyond ASCII
};

struct StripSides {
  bool left = true;
  bool right = true;
};
// Without `characters` it is white space that goes.
std::string_view strip(std::string_view text, StripSides sides = {},
                       const CharacterSet* characters = nullptr);

void append_upper(TextBuilder& out, std::string_view text);
void append_lower(TextBuilder& out, std::string_view text);
void append_capitalized(TextBuilder& out, std::string_view text);
void append_title(TextBuilder& out, std::string_view text);  // str.title(): letters after what is none
void append_title_by_words(TextBuilder& out, std::string_view text);  // `title`: after space and brackets

// Where the part is for the first or last time; npos if nowhere. What is compared is counted: "aa…ab" is
// compared with "aa…aa" anew at every place.
size_t find_text(Runtime& runtime, std::string_view text, std::string_view part);
size_t find_last_text(Runtime& runtime, std::string_view text, std::string_view part);

// `limit` below 0: no limit. Without a separator: at runs of white space, without empty pieces.
void split(ListBuilder& out, std::string_view text, std::optional<std::string_view> separator, int64_t limit);
void split_from_right(ListBuilder& out, std::string_view text, std::optional<std::string_view> separator,
                      int64_t limit);
// Cuts the first line off, with its end if that is to be kept.
std::string_view take_line(std::string_view& text, bool keep_end);

void append_replaced(TextBuilder& out, std::string_view text, std::string_view old_part,
                     std::string_view new_part, int64_t limit);
int64_t count_occurrences(Runtime& runtime, std::string_view text, std::string_view part);

enum class CharacterTest : uint8_t { digit, letter, letter_or_digit, space, upper, lower };
// str.isdigit() and the like: not empty, and all characters are so.
bool all_characters(std::string_view text, CharacterTest test);

void append_escaped_html(TextBuilder& out, std::string_view text);

}  // namespace snug::jinja
