// The story of a log, for people and as JSON.
#pragma once

#include <string>

#include "explain/story.h"
#include "io/json.h"
#include "report/terminal.h"

namespace snug {

std::string explain_report(const Story& story, const Style& style);
Json explain_json(const Story& story);

}  // namespace snug
