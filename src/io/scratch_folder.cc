// Making and removing it.
#include "io/scratch_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <string>
#include <system_error>

#include "base/error.h"
#include "io/printable.h"

namespace snug {

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "snug-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw environment_error(
        fmt::format("{}: no folder can be made there; TMPDIR names another place", in_quotes(pattern)));
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace snug
