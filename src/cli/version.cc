// The commit comes from a header that the build writes anew (cmake/SnugVersion.cmake).
#include "cli/version.h"

#include <fmt/format.h>

#include "cli/make_backend.h"
#include "snug_commit.h"

namespace snug {

std::string version_text() {
  return fmt::format("snug {}\n  commit      {}\n  backends    {}\n  built with  {}, fmt {}.{}.{}\n",
                     SNUG_VERSION, SNUG_COMMIT, describe_backends(), SNUG_COMPILER, FMT_VERSION / 10000,
                     FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

}  // namespace snug
