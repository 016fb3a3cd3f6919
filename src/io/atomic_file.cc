// Atomic writing with the system calls themselves: only they say whether the bytes reached the disk.
#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

void create_folders(const fs::path& folder) {
  std::error_code status;
  fs::create_directories(folder, status);
  if (status) {
    throw write_error(status.value(), folder, "the folder cannot be created");
  }
  if (!fs::is_directory(folder, status)) {
    throw write_error(ENOTDIR, folder, "the folder cannot be created");
  }
}

constexpr std::string_view kPartialSuffix = ".partial";

int create_exclusively(const fs::path& path) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

void sync_file(int descriptor, const fs::path& path, int64_t file_bytes) {
  int status = 0;
  do {
    status = ::fsync(descriptor);
  } while (status != 0 && errno == EINTR);
  if (status != 0) {
    throw write_error(errno, path, "cannot be brought to the disk", file_bytes);
  }
}

// Lets the disk begin with what was written, beside what is made next: the system would wait for seconds, or
// for a tenth of the memory, and commit() then for all of the disk's work. Whoever writes little waits
// little.
void start_writeback(int descriptor, int64_t offset, int64_t bytes) {
  constexpr int64_t kWorthwhileBytes = int64_t{1} << 20;
  if (bytes >= kWorthwhileBytes) {
    // A wish: a file system that cannot is left to commit().
    [[maybe_unused]] int ignored = ::sync_file_range(descriptor, offset, bytes, SYNC_FILE_RANGE_WRITE);
  }
}

// The new name itself must reach the disk. File systems without this notion answer EINVAL: nothing to do.
void sync_folder(const fs::path& folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EACCES) {
      return;  // a folder that may be written but not listed
    }
    throw write_error(errno, folder, "cannot be brought to the disk");
  }
  int status = ::fsync(descriptor);
  int cause = errno;
  ::close(descriptor);
  if (status != 0 && cause != EINVAL && cause != EROFS) {
    throw write_error(cause, folder, "cannot be brought to the disk");
  }
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

}  // namespace

// The counter makes it one that no other file of this process uses.
fs::path partial_name(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  return target.parent_path() /
         fmt::format(".{}.{}-{}{}", target.filename().string(), ::getpid(), counter++, kPartialSuffix);
}

void rename_into_place(const fs::path& made, const fs::path& target) {
  unsigned flags = 0;
  if (fs::is_directory(made)) {
    sync_folder(made);
    flags = fs::exists(target) ? RENAME_EXCHANGE : 0;
  }
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, target.c_str(), flags) != 0) {
    throw write_error(errno, target, "cannot be put in place");
  }
  sync_folder(folder_of(target));
}

Error write_error(int cause, const fs::path& path, std::string_view action, int64_t wanted_bytes) {
  std::string reason = std::strerror(cause);
  switch (cause) {
    case ENOSPC:
    case EDQUOT:
      reason = fmt::format(
          "{}: {} more bytes ({}) wanted; free space, or write to another folder (output_dir; data.cache_dir "
          "for tokens)",
          cause == ENOSPC ? "disk full" : "disk quota used up", wanted_bytes, format_bytes(wanted_bytes));
      break;
    case EFBIG:
      reason = fmt::format(
          "{} more bytes ({}) make the file larger than this file system or the limit on file sizes "
          "(ulimit -f) allows; raise the limit or write to another folder (output_dir; data.cache_dir for "
          "tokens)",
          wanted_bytes, format_bytes(wanted_bytes));
      break;
    case EROFS:
      reason =
          "the file system is read-only; write to another folder (output_dir; data.cache_dir for tokens)";
      break;
    case EACCES:
    case EPERM:
      reason =
          "permission denied; allow writing there, or write to another folder (output_dir; data.cache_dir "
          "for tokens)";
      break;
    case ENOTDIR:
    case EEXIST:
      reason =
          "part of the path is a file, not a folder; write to another folder (output_dir; data.cache_dir for "
          "tokens)";
      break;
    default:
      break;
  }
  return environment_error(fmt::format("{}: {}: {}", path.string(), action, reason));
}

int try_write_fully(int descriptor, int64_t offset, std::span<const std::byte>& bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      // 0 for a request that is not empty: no progress is possible, which only a full device explains.
      return written == 0 ? ENOSPC : errno;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return 0;
}

void write_fully(int descriptor, int64_t offset, std::span<const std::byte> bytes, const fs::path& path) {
  if (int cause = try_write_fully(descriptor, offset, bytes); cause != 0) {
    throw write_error(cause, path, "cannot be written", static_cast<int64_t>(bytes.size()));
  }
}

AtomicFile::AtomicFile(const fs::path& target) : target_(target) {
  SNUG_CHECK(target.has_filename(), "an atomic file needs a name: " + target.string());
  create_folders(folder_of(target));
  std::error_code ignored;
  if (fs::is_directory(target, ignored)) {
    throw bad_input(fmt::format("{}: is a folder; a file of this name is to be written", target.string()));
  }
  do {  // a name left behind by a killed process whose number came round again is passed over
    temporary_ = partial_name(target);
    descriptor_ = create_exclusively(temporary_);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    throw write_error(errno, target, "cannot be created");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::reserve(int64_t total_bytes) {
  SNUG_CHECK(descriptor_ >= 0, "reserve after commit");
  if (total_bytes <= 0) {
    return;
  }
  // Asked first, because fallocate may fill the disk before it gives up.
  struct statvfs disk {};
  if (::fstatvfs(descriptor_, &disk) == 0 && disk.f_blocks > 0) {
    double free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (free_bytes < static_cast<double>(total_bytes)) {
      throw write_error(ENOSPC, target_, "cannot be written", total_bytes - static_cast<int64_t>(free_bytes));
    }
  }
  int status = 0;
  do {
    status = ::fallocate(descriptor_, 0, 0, total_bytes);
  } while (status != 0 && errno == EINTR);
  if (status != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    throw write_error(errno, target_, "cannot be written", total_bytes);
  }  // any other answer: this file system cannot reserve, and the writes will tell
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_at(position_, bytes);
  position_ += static_cast<int64_t>(bytes.size());
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  SNUG_CHECK(descriptor_ >= 0, "write after commit");
  write_fully(descriptor_, offset, bytes, target_);
  start_writeback(descriptor_, offset, static_cast<int64_t>(bytes.size()));
}

void AtomicFile::commit() {
  SNUG_CHECK(descriptor_ >= 0, "commit twice");
  sync_file(descriptor_, target_, position_);
  int status = ::close(descriptor_);
  descriptor_ = -1;
  if (status != 0 && errno != EINTR) {  // Linux has closed it, even if interrupted
    throw write_error(errno, target_, "cannot be closed", position_);
  }
  rename_into_place(temporary_, target_);
  temporary_.clear();
}

void write_file_atomically(const fs::path& target, std::string_view text) {
  AtomicFile file(target);
  file.write(text);
  file.commit();
}

void remove_partial_files(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.ends_with(kPartialSuffix)) {
      fs::remove_all(entry.path(), ignored);  // files, and folders of them
    }
  }
}

std::string read_text_file(const fs::path& path, int64_t max_bytes) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      throw bad_input(fmt::format("{}: no such file", path.string()));
    }
    throw environment_error(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  // Read to the end instead of asking for the size: pipes and /proc have none.
  std::string text;
  std::string piece(size_t{1} << 16, '\0');
  ssize_t got = 0;
  do {
    got = ::read(descriptor, piece.data(), piece.size());
    if (got > 0) {
      text.append(piece, 0, static_cast<size_t>(got));
    }
  } while ((got > 0 || (got < 0 && errno == EINTR)) && static_cast<int64_t>(text.size()) <= max_bytes);
  int cause = got < 0 ? errno : 0;
  ::close(descriptor);
  if (cause == EISDIR) {
    throw bad_input(fmt::format("{}: is a folder; a file is wanted", path.string()));
  }
  if (cause != 0) {
    throw environment_error(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(cause)));
  }
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    throw bad_input(fmt::format("{}: larger than {}, too large for a text file of this kind", path.string(),
                                format_bytes(max_bytes)));
  }
  return text;
}

void require_writable_folder(const fs::path& folder) {
  create_folders(folder);
  AtomicFile probe(folder / "write-probe");
  probe.write("x");  // a full disk lets files be created but not filled
}

}  // namespace snug
