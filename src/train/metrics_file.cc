// Appending rows.
#include "train/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "io/atomic_file.h"

namespace snug {

MetricsFile::MetricsFile(const std::filesystem::path& path, std::string_view earlier) : path_(path) {
  write_file_atomically(path, earlier);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw write_error(errno, path, "cannot be written");
  }
  bytes_ = static_cast<int64_t>(earlier.size());
}

MetricsFile::~MetricsFile() {
  ::close(descriptor_);
}

bool MetricsFile::append(const Json& row) {
  std::string line = row.dump() + "\n";
  std::span<const std::byte> left = std::as_bytes(std::span(line));
  int cause = try_write_fully(descriptor_, bytes_, left);
  if (cause == 0) {
    bytes_ += static_cast<int64_t>(line.size());
    return true;
  }
  problem_ = write_error(cause, path_, "cannot be written", static_cast<int64_t>(left.size())).what();
  ++rows_lost_;
  // Half a line may have been written; if it cannot be cut off, the next row covers it.
  [[maybe_unused]] int ignored = ::ftruncate(descriptor_, bytes_);
  return false;
}

std::string MetricsFile::text() const {
  return read_text_file(path_).substr(0, static_cast<size_t>(bytes_));
}

}  // namespace snug
