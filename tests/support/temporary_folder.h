// A folder of its own for a test, removed at the end.
#pragma once

#include <filesystem>
#include <iterator>
#include <string>

#include "io/scratch_folder.h"

namespace snug {

class TemporaryFolder : public ScratchFolder {
 public:
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
  size_t entry_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path()), {}));
  }
};

}  // namespace snug
