// Memory maps by mmap(2).
#include "io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/error.h"

namespace snug {
namespace {

// Closes on every way out; a mapping outlives its descriptor.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) {
      ::close(number);
    }
  }
};

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

MappedFile::MappedFile(const std::filesystem::path& path) {
  Descriptor descriptor{open_for_reading(path.string())};
  struct stat status {};
  if (::fstat(descriptor.number, &status) != 0) {
    throw environment_error(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw bad_input(fmt::format("{}: is a {}, not a file", path.string(),
                                S_ISDIR(status.st_mode) ? "folder" : "device or pipe"));
  }
  if (status.st_size == 0) {
    return;  // mmap refuses empty ranges; an empty span says it all
  }
  auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (address == MAP_FAILED) {
    throw environment_error(fmt::format("{}: its {} bytes cannot be mapped into memory: {}", path.string(),
                                        size, std::strerror(errno)));
  }
  data_ = static_cast<const std::byte*>(address);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

void MappedFile::release(std::span<const std::byte> range) const {
  if (range.empty()) {
    return;
  }
  const std::byte* last = range.data() + range.size();
  SNUG_CHECK(std::less_equal<>()(data_, range.data()) && std::less_equal<>()(last, data_ + size_),
             "the range to release is not in this file");
  // Outwards to whole pages: a neighbour's byte that is dropped too is read again, and small tensors
  // would otherwise never be released.
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t first_page = static_cast<size_t>(range.data() - data_) / page;
  const std::byte* start = data_ + first_page * page;
  // Advice only: if the kernel declines, the pages stay and nothing else changes.
  (void)::madvise(const_cast<std::byte*>(start), static_cast<size_t>(last - start), MADV_DONTNEED);
}

}  // namespace snug
