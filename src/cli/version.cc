// A few lines of what base knows.
#include "cli/version.h"

#include <fmt/format.h>

#include "base/version.h"
#include "cli/make_backend.h"

namespace snug {

std::string version_text() {
  return fmt::format("snug {}\n  commit      {}\n  backends    {}\n  built with  {}, fmt {}.{}.{}\n",
                     program_version(), program_commit(), describe_backends(), program_compiler(),
                     FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

}  // namespace snug
