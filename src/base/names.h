// Helping with misspelt names: edit distance and the nearest known name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snug {

int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, or "" if none is near enough to be what was meant.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace snug
