// What another stack would take, for people and for machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/python_stack.h"
#include "io/json.h"
#include "report/terminal.h"

namespace snug {

// A row for each way to run it, and snug's own plan of so many bytes last.
std::string python_stacks_report(const std::vector<PythonStackUse>& uses, int64_t planned_bytes,
                                 const std::optional<int64_t>& limit_bytes, const Style& style);
Json python_stacks_json(const std::vector<PythonStackUse>& uses);

}  // namespace snug
