// A lock on a folder that keeps other processes out. The system frees it when its holder ends, however it
// ends.
#pragma once

#include <filesystem>

namespace snug {

class FolderLock {
 public:
  // Does not wait. Where the file system knows no locks, every process gets one.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool is_held_elsewhere() const { return held_elsewhere_; }

 private:
  int descriptor_ = -1;
  bool held_elsewhere_ = false;
};

}  // namespace snug
