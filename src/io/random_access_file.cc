// Reading by pread(2).
#include "io/random_access_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace snug {
namespace {

int open_for_reading(const std::string& path) {
  int number = -1;
  do {
    // O_NONBLOCK: a named pipe must be refused below, not waited for.
    number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (number < 0 && errno == EINTR);
  if (number >= 0) {
    return number;
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    throw bad_input(fmt::format("{}: no such file", path));
  }
  throw environment_error(fmt::format("{}: cannot be opened for reading: {}", path, std::strerror(errno)));
}

}  // namespace

RandomAccessFile::RandomAccessFile(const std::filesystem::path& path)
    : path_(path.string()), descriptor_(open_for_reading(path_)) {
  struct stat status {};
  int problem = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (problem == 0 && S_ISREG(status.st_mode)) {
    size_bytes_ = status.st_size;
    return;
  }
  ::close(descriptor_);
  if (problem != 0) {
    throw environment_error(fmt::format("{}: cannot be read: {}", path_, std::strerror(problem)));
  }
  throw bad_input(
      fmt::format("{}: is a {}, not a file", path_, S_ISDIR(status.st_mode) ? "folder" : "device or pipe"));
}

RandomAccessFile::~RandomAccessFile() {
  ::close(descriptor_);
}

void RandomAccessFile::read_at(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw environment_error(
          fmt::format("{}: reading stopped at byte {}: {}", path_, offset, std::strerror(errno)));
    }
    if (count == 0) {
      throw environment_error(fmt::format(
          "{}: ends at byte {}, and had {} when it was opened: something cut it short while it was in "
          "use. Start again",
          path_, offset, size_bytes_));
    }
    offset += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

}  // namespace snug
