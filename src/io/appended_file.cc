// Appending records.
#include "io/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "io/atomic_file.h"

namespace snug {

AppendedFile::AppendedFile(const std::filesystem::path& path, std::string_view beginning) : path_(path) {
  write_file_atomically(path, beginning);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw write_error(errno, path, "cannot be written");
  }
  bytes_ = static_cast<int64_t>(beginning.size());
}

AppendedFile::~AppendedFile() {
  ::close(descriptor_);
}

bool AppendedFile::append(std::string_view record) {
  std::span<const std::byte> left = std::as_bytes(std::span(record));
  int cause = try_write_fully(descriptor_, bytes_, left);
  if (cause == 0) {
    bytes_ += static_cast<int64_t>(record.size());
    return true;
  }
  problem_ = write_error(cause, path_, "cannot be written", static_cast<int64_t>(left.size())).what();
  ++records_lost_;
  // Half a record may have been written; if it cannot be cut off, the next one covers it.
  [[maybe_unused]] int ignored = ::ftruncate(descriptor_, bytes_);
  return false;
}

std::string AppendedFile::text() const {
  return read_text_file(path_).substr(0, static_cast<size_t>(bytes_));
}

}  // namespace snug
