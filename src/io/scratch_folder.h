// A folder of this process alone, that goes with the object.
#pragma once

#include <filesystem>

namespace snug {

class ScratchFolder {
 public:
  // Below the system's folder for such (TMPDIR). Throws environment_error where none can be made.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace snug
