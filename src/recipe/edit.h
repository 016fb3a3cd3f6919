// Changing keys in a recipe's text where they stand. Comments, order, quotes and line ends are a person's
// own: whatever is not changed stays, byte for byte.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snug {

// `settings` as --set takes them: "memory.recompute=full", "stages.NAME.memory.recompute=full". A key that is
// new goes behind the others of its section, a section behind the others. `name` is the text's in messages.
// Throws bad_input where the text cannot hold one: the section is an alias, or the stages stand in another
// file. What YAML can spell and is edited wrongly is for the caller to find, who reads the result anyway.
std::string edit_recipe(std::string_view text, const std::string& name,
                        const std::vector<std::string>& settings);

}  // namespace snug
