// What kind of character a code point is, by Unicode's own tables.
#pragma once

#include <cstdint>

namespace snug {

// Unicode's White_Space property.
bool is_white_space(uint32_t codepoint);
// What a regular expression's \w matches: letters, marks, numbers, connecting punctuation.
bool is_word_character(uint32_t codepoint);

}  // namespace snug
