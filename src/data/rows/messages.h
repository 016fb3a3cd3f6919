// The messages of a conversation, brought to one form and checked.
#pragma once

#include <string>

#include "io/json.h"

namespace snug {

// Each must be an object with "role" and "content" (or "tool_calls"). Why not; "" if all are well.
std::string find_message_problem(const Json& messages);

// ShareGPT's {"from", "value"} to {"role", "content"}, in place. The problem, or "".
std::string convert_sharegpt(Json& messages);

}  // namespace snug
