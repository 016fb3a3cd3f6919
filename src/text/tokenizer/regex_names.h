// Names of character classes in regular expressions that must mean the same with every version of Oniguruma.
#pragma once

#include <string>
#include <string_view>

namespace snug {

// Makes \p{L} and its like know the characters that the reference implementation knows, where the library of
// the distribution follows an older Unicode. To be called once, after the library has been made ready.
void define_newer_characters();

// The same expression without [:punct:] inside of classes, which older versions read as \p{P} and newer ones
// as \p{P} and \p{S}: the latter is meant.
std::string with_signs_by_name(std::string_view pattern);

}  // namespace snug
