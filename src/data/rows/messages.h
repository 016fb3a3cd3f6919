// The messages of a conversation, brought to one form and checked.
#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace snug {

// Each must be an object with "role" and "content" (or "tool_calls"); content is a string, or a list of parts
// that are text. Why not; "" if all are well.
std::string find_message_problem(const Json& messages);

// Whether chat templates know it: others are written as they stand, or not at all, and are never learned.
bool is_known_role(std::string_view role);

// ShareGPT's {"from", "value"} to {"role", "content"}, in place. The problem, or "".
std::string convert_sharegpt(Json& messages);

}  // namespace snug
