// What this program is, for bug reports.
#pragma once

#include <string>

namespace snug {

// Version, commit, backends, libraries and compiler, a line each.
std::string version_text();

}  // namespace snug
