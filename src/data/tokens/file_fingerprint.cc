// Reading a file through, and what is remembered of it.
#include "data/tokens/file_fingerprint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "data/source/stream.h"
#include "io/atomic_file.h"
#include "io/fingerprint.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{4} << 20;
constexpr size_t kHexDigits = 32;

struct stat status_of(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    throw bad_input(fmt::format("{}: cannot be read: {}.", path.string(), std::strerror(errno)));
  }
  return status;
}

// Everything that changes when a file does. The time of the last change of the inode cannot be set back.
std::string identity_of(const struct stat& status) {
  Fingerprint identity;
  for (int64_t part :
       {static_cast<int64_t>(status.st_dev), static_cast<int64_t>(status.st_ino),
        static_cast<int64_t>(status.st_size), static_cast<int64_t>(status.st_mtim.tv_sec),
        static_cast<int64_t>(status.st_mtim.tv_nsec), static_cast<int64_t>(status.st_ctim.tv_sec),
        static_cast<int64_t>(status.st_ctim.tv_nsec)}) {
    identity.add(part);
  }
  return identity.hex();
}

// Two changes within a tick of the file system's clock leave the same times: what was written just now is not
// noted. FAT's clock ticks every two seconds, others' faster.
bool has_rested(const struct stat& status) {
  constexpr int64_t kTickSeconds = 2;
  return std::time(nullptr) > static_cast<int64_t>(status.st_ctim.tv_sec) + kTickSeconds;
}

std::string read_note(const fs::path& note) {
  std::ifstream file(note);
  std::string hex;
  std::getline(file, hex);
  return hex.size() == kHexDigits ? hex : "";
}

}  // namespace

std::string file_fingerprint(const fs::path& path, const fs::path& notes, const ByteCounter& count) {
  std::unique_ptr<ByteStream> stream = open_raw_stream(path);
  struct stat status = status_of(path);
  std::string identity = identity_of(status);
  fs::path note = notes / (identity + ".seen");
  std::string noted = read_note(note);
  if (!noted.empty()) {
    count(status.st_size);
    return noted;
  }
  std::vector<char> buffer(kReadBytes);
  Fingerprint fingerprint;
  for (size_t got = stream->read(buffer.data(), buffer.size()); got > 0;
       got = stream->read(buffer.data(), buffer.size())) {
    fingerprint.add_bytes({buffer.data(), got});
    count(static_cast<int64_t>(got));
  }
  if (S_ISREG(status.st_mode) && has_rested(status) && identity_of(status_of(path)) == identity) {
    write_file_atomically(note, fingerprint.hex() + "\n");
  }
  return fingerprint.hex();
}

}  // namespace snug
