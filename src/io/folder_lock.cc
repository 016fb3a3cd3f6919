// flock on the folder itself, so that nothing is left behind; NFS locks only files that are open for writing.
#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace snug {
namespace {

// 0, or why not.
int try_lock(int descriptor) {
  int status = 0;
  do {
    status = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0 ? 0 : errno;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  int problem = descriptor_ < 0 ? errno : try_lock(descriptor_);
  if (problem != 0 && problem != EWOULDBLOCK) {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    descriptor_ = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    problem = descriptor_ < 0 ? errno : try_lock(descriptor_);
  }
  held_elsewhere_ = problem == EWOULDBLOCK;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

}  // namespace snug
