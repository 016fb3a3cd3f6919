// flock on the folder itself, so that nothing is left behind; NFS locks only files that are open for writing.
#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace snug {
namespace {

// 0, or why not.
int try_lock(int descriptor, int kind) {
  int status = 0;
  do {
    status = ::flock(descriptor, kind | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  return status == 0 ? 0 : errno;
}

// Who looks at a lock (is_folder_locked) has it for a moment.
int lock_for_long(int descriptor) {
  constexpr int kTries = 10;
  constexpr auto kBetween = std::chrono::milliseconds(10);
  int problem = try_lock(descriptor, LOCK_EX);
  for (int i = 1; i < kTries && problem == EWOULDBLOCK; ++i) {
    std::this_thread::sleep_for(kBetween);
    problem = try_lock(descriptor, LOCK_EX);
  }
  return problem;
}

bool is_locked(const std::filesystem::path& path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  int problem = try_lock(descriptor, LOCK_SH);
  ::close(descriptor);
  return problem == EWOULDBLOCK;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  int problem = descriptor_ < 0 ? errno : lock_for_long(descriptor_);
  if (problem != 0 && problem != EWOULDBLOCK) {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    descriptor_ = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    problem = descriptor_ < 0 ? errno : lock_for_long(descriptor_);
  }
  held_elsewhere_ = problem == EWOULDBLOCK;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool is_folder_locked(const std::filesystem::path& folder) {
  return is_locked(folder) || is_locked(folder / ".lock");
}

}  // namespace snug
