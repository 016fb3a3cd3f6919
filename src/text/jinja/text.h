// Python's string operations on UTF-8: positions and lengths count characters, white space and letters are
// Unicode's. Bytes that are not UTF-8 count as one character each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace snug::jinja {

bool is_space(uint32_t codepoint);
// A character that a name may hold: a letter, digit or underscore.
bool is_word(uint32_t codepoint);

int64_t count_characters(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);
// The byte at which the character number `index` begins; the text's size if there are fewer.
size_t byte_of_character(std::string_view text, int64_t index);

struct StripSides {
  bool left = true;
  bool right = true;
};
// Without `chars` it is white space that goes.
std::string_view strip(std::string_view text, std::optional<std::string_view> chars = {},
                       StripSides sides = {});

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string to_title(std::string_view text);           // str.title(): letters after what is no letter
std::string to_title_by_words(std::string_view text);  // the filter `title`: after space and opening brackets

// `limit` below 0: no limit. Without a separator: at runs of white space, without empty pieces.
std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator,
                               int64_t limit);
std::vector<std::string> split_from_right(std::string_view text, std::optional<std::string_view> separator,
                                          int64_t limit);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends = false);

std::string replace(std::string_view text, std::string_view old_part, std::string_view new_part,
                    int64_t limit);
int64_t count_occurrences(std::string_view text, std::string_view part);

enum class CharacterTest : uint8_t { digit, letter, letter_or_digit, space, upper, lower };
// str.isdigit() and the like: not empty, and all characters are so.
bool all_characters(std::string_view text, CharacterTest test);

// With quotes and escapes, as Python's repr().
std::string in_python_quotes(std::string_view text);
std::string escape_html(std::string_view text);

}  // namespace snug::jinja
