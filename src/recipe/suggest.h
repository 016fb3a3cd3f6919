// What to say about a name that the key table does not have.
#pragma once

#include <string>
#include <string_view>

namespace snug {

// The message after the position: `unknown key "learning_rat" in training; did you mean "learning_rate"?`.
// `section` is "" for the top level.
std::string unknown_name(std::string_view section, std::string_view name);
std::string unknown_section(std::string_view name);  // the same at the top level, for what holds keys

// "r, lora_alpha, ...": the names allowed in a section, or at the top level for "".
std::string known_names(std::string_view section);

}  // namespace snug
