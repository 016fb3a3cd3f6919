// What another stack would take, for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "explain/python_stack.h"
#include "io/json.h"
#include "report/terminal.h"

namespace snug {

// A row for each way to run it, and snug's plan last.
std::string python_stacks_report(const std::vector<PythonStackUse>& uses, const Plan& plan,
                                 const Style& style);
Json python_stacks_json(const std::vector<PythonStackUse>& uses);

}  // namespace snug
