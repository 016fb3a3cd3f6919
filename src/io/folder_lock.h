// A lock on a folder that keeps other processes out. The system frees it when its holder ends, however it
// ends.
#pragma once

#include <filesystem>

namespace snug {

class FolderLock {
 public:
  // Waits no longer than somebody may look at the lock. Where the file system knows no locks, every process
  // gets one.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool is_held_elsewhere() const { return held_elsewhere_; }

 private:
  int descriptor_ = -1;
  bool held_elsewhere_ = false;
};

// Whether a process has one on this folder now.
bool is_folder_locked(const std::filesystem::path& folder);

}  // namespace snug
