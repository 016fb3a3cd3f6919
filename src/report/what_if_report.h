// What each usual remedy would do, for people and as JSON.
#pragma once

#include <string>

#include "fit/what_if.h"
#include "io/json.h"
#include "report/terminal.h"

namespace snug {

// `name` is the stage's; "" for none.
std::string what_if_report(const WhatIf& found, const std::string& name, const Style& style);
Json what_if_json(const WhatIf& found);

}  // namespace snug
