// The commit comes from a header that the build writes anew (cmake/SnugVersion.cmake).
#include "base/version.h"

#include "snug_commit.h"

namespace snug {

std::string_view program_version() {
  return SNUG_VERSION;
}

std::string_view program_commit() {
  return SNUG_COMMIT;
}

std::string_view program_compiler() {
  return SNUG_COMPILER;
}

}  // namespace snug
