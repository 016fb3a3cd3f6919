// Memory maps by mmap(2).
#include "io/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/error.h"
#include "io/random_access_file.h"

namespace snug {

MappedFile::MappedFile(const std::filesystem::path& path) {
  RandomAccessFile file(path);  // a mapping outlives it
  if (file.size_bytes() == 0) {
    return;  // mmap refuses empty ranges; an empty span says it all
  }
  auto size = static_cast<size_t>(file.size_bytes());
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
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
