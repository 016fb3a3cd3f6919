// The web pages that the program carries (src/report/pages), each with @DATA@ where its data goes.
#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace snug {

// NOLINTBEGIN(readability-identifier-naming): named after their files
extern const char* const kPage_plan;
extern const char* const kPage_watch;
// NOLINTEND(readability-identifier-naming)

// The page with the data in it, whatever the data's strings are.
std::string page_with(std::string_view page, const Json& data);

}  // namespace snug
