// What this program is, for the record of a run and for bug reports.
#pragma once

#include <string_view>

namespace snug {

std::string_view program_version();   // "0.9.0"
std::string_view program_commit();    // that it was built from, with "-dirty" where files were changed
std::string_view program_compiler();  // "GNU 12.2.0"

}  // namespace snug
