// Reserving by files that have no name: the space is theirs until they are closed, or the process ends.
#include "io/disk_space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>

#include "io/atomic_file.h"

namespace snug {
namespace {

int64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) {
    return std::numeric_limits<int64_t>::max();  // unknown: the writes will tell
  }
  return static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
}

// A file that is gone when it is closed; -1 where none can be made.
int open_nameless(const std::filesystem::path& folder) {
  std::string pattern = (folder / fmt::format(".reserved.{}-XXXXXX", ::getpid())).string();
  int descriptor = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor >= 0) {
    ::unlink(pattern.c_str());
  }
  return descriptor;
}

}  // namespace

DiskReservation::DiskReservation(const std::filesystem::path& folder, const std::vector<PlannedFile>& files) {
  require_disk_space(folder, files, 0);  // first, because fallocate may fill the disk before it gives up
  for (const PlannedFile& file : files) {
    int descriptor = open_nameless(folder);
    if (descriptor < 0) {
      continue;
    }
    descriptors_.push_back(descriptor);
    int status = 0;
    do {
      status = file.bytes > 0 ? ::fallocate(descriptor, 0, 0, file.bytes) : 0;
    } while (status != 0 && errno == EINTR);
    if (status != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
      int cause = errno;
      release();
      throw write_error(cause, folder / file.name, "will not fit", file.bytes);
    }  // any other answer: this file system cannot reserve
  }
}

void DiskReservation::release() {
  for (int descriptor : descriptors_) {
    ::close(descriptor);
  }
  descriptors_.clear();
}

void require_disk_space(const std::filesystem::path& folder, const std::vector<PlannedFile>& files,
                        int64_t freed_bytes) {
  int64_t left = free_bytes(folder);
  left += std::min(freed_bytes, std::numeric_limits<int64_t>::max() - left);
  for (const PlannedFile& file : files) {
    if (left < file.bytes) {
      throw write_error(ENOSPC, folder / file.name, "will not fit", file.bytes - left);
    }
    left -= file.bytes;
  }
}

}  // namespace snug
