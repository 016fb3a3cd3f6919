// A comparison of two recipes or runs, for people and for programs.
#pragma once

#include <string>

#include "io/json.h"
#include "report/difference.h"
#include "report/terminal.h"

namespace snug {

std::string diff_report(const Compared& a, const Compared& b, const Style& style);
Json diff_json(const Compared& a, const Compared& b);

}  // namespace snug
