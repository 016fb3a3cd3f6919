// The web pages that the program carries (src/report/pages), each with @DATA@ where its data goes.
#pragma once

#include <string>
#include <string_view>

#include "io/json.h"

namespace snug {

extern const char* const kPage_plan;  // NOLINT(readability-identifier-naming): named after its file

// The page with the data in it, whatever the data's strings are.
std::string page_with(std::string_view page, const Json& data);

}  // namespace snug
