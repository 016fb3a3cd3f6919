// Disk space for files that are written later, so that a disk that is too small is known before the work that
// makes them, and one that fills up meanwhile does not take their place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace snug {

struct PlannedFile {
  std::string name;
  int64_t bytes = 0;
};

class DiskReservation {
 public:
  // Takes the space of all files in `folder`; throws environment_error naming the one that it does not
  // suffice for. A file system that cannot reserve is asked how much it has.
  DiskReservation(const std::filesystem::path& folder, const std::vector<PlannedFile>& files);
  ~DiskReservation() { release(); }
  DiskReservation(const DiskReservation&) = delete;
  DiskReservation& operator=(const DiskReservation&) = delete;

  // Gives it back: before the files are written.
  void release();

 private:
  std::vector<int> descriptors_;  // of files without a name, which nothing can leave behind
};

// Throws environment_error unless the folder's disk has room for all files, once `freed_bytes` are freed.
void require_disk_space(const std::filesystem::path& folder, const std::vector<PlannedFile>& files,
                        int64_t freed_bytes);

}  // namespace snug
