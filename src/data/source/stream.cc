// The bytes of a data file, decompressed where its content is gzip or zstd.
#include "data/source/stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace snug {

namespace {

constexpr size_t kInputBytes = size_t{1} << 18;

class FileStream : public ByteStream {
 public:
  explicit FileStream(const std::filesystem::path& path) : path_(path.string()) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      throw bad_input(
          fmt::format("{}: is a folder; name the data files in it, such as {}/*.jsonl.", path_, path_));
    }
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0 || fstat(file_, &at_open_) != 0) {
      int problem = errno;
      if (file_ >= 0) {
        ::close(file_);
      }
      if (problem != ENOENT && problem != ENOTDIR) {
        throw environment_error(fmt::format(
            "{}: cannot be read: {}. Give this user access to it, or name another file in the recipe.", path_,
            std::strerror(problem)));
      }
      throw bad_input(fmt::format(
          "{}: cannot be read: {}. Check the data files that the recipe names; they are relative to "
          "its folder.",
          path_, std::strerror(problem)));
    }
  }
  ~FileStream() override { ::close(file_); }

  size_t read(char* buffer, size_t size) override {
    ssize_t count = 0;
    do {
      count = ::read(file_, buffer, size);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
      throw environment_error(
          fmt::format("{}: reading stopped at byte {}: {}.", path_, position_, std::strerror(errno)));
    }
    position_ += count;
    if (count == 0) {
      check_unchanged();
    }
    return static_cast<size_t>(count);
  }

  int64_t consumed_bytes() const override { return position_; }

  // The first bytes, left in the stream.
  std::string peek(size_t size) {
    std::string start(size, '\0');
    ssize_t count = ::pread(file_, start.data(), size, 0);
    start.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return start;
  }

  const std::string& path() const { return path_; }

 private:
  // Rows of two versions of a file would be mixed without anybody noticing.
  void check_unchanged() const {
    struct stat now = {};
    bool same = fstat(file_, &now) == 0 && now.st_size == at_open_.st_size &&
                now.st_mtim.tv_sec == at_open_.st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == at_open_.st_mtim.tv_nsec;
    bool whole = !S_ISREG(at_open_.st_mode) || position_ == at_open_.st_size;
    if (!same || !whole) {
      throw environment_error(fmt::format(
          "{}: the file changed while it was read. Wait until it is written, then start again.", path_));
    }
  }

  std::string path_;
  int file_ = -1;
  struct stat at_open_ = {};
  int64_t position_ = 0;
};

Error damaged(const std::string& path, std::string_view kind, std::string_view reason) {
  return bad_input(fmt::format("{}: the {} data is damaged or cut off: {}.", path, kind, reason));
}

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<FileStream> file) : file_(std::move(file)), input_(kInputBytes) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&state_, kGzipOnly) != Z_OK) {
      throw environment_error(fmt::format("{}: no memory to decompress it.", file_->path()));
    }
  }
  ~GzipStream() override { inflateEnd(&state_); }

  size_t read(char* buffer, size_t size) override {
    state_.next_out = reinterpret_cast<Bytef*>(buffer);
    state_.avail_out = static_cast<uInt>(std::min<size_t>(size, 1U << 30));
    auto wanted = state_.avail_out;
    while (state_.avail_out == wanted) {
      if (state_.avail_in == 0 && !refill()) {
        if (inside_member_) {
          throw damaged(file_->path(), "gzip", "it ends too early");
        }
        return 0;
      }
      if (!inside_member_) {  // several members one after the other are one file
        inflateReset(&state_);
        inside_member_ = true;
      }
      int result = inflate(&state_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        inside_member_ = false;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw damaged(file_->path(), "gzip",
                      state_.msg == nullptr ? "it cannot be decompressed" : state_.msg);
      }
    }
    return wanted - state_.avail_out;
  }
  int64_t consumed_bytes() const override { return file_->consumed_bytes(); }

 private:
  bool refill() {
    size_t count = file_->read(input_.data(), input_.size());
    state_.next_in = reinterpret_cast<Bytef*>(input_.data());
    state_.avail_in = static_cast<uInt>(count);
    return count > 0;
  }

  std::unique_ptr<FileStream> file_;
  std::vector<char> input_;
  z_stream state_ = {};
  bool inside_member_ = true;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<FileStream> file)
      : file_(std::move(file)), input_(kInputBytes), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) {
      throw environment_error(fmt::format("{}: no memory to decompress it.", file_->path()));
    }
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }

  size_t read(char* buffer, size_t size) override {
    ZSTD_outBuffer out = {buffer, size, 0};
    while (out.pos == 0) {
      if (pending_.pos == pending_.size) {
        pending_ = {input_.data(), file_->read(input_.data(), input_.size()), 0};
        if (pending_.size == 0) {
          if (inside_frame_) {
            throw damaged(file_->path(), "zstd", "it ends too early");
          }
          return 0;
        }
      }
      size_t result = ZSTD_decompressStream(state_, &out, &pending_);
      if (ZSTD_isError(result) != 0U) {
        throw damaged(file_->path(), "zstd", ZSTD_getErrorName(result));
      }
      inside_frame_ = result != 0;
    }
    return out.pos;
  }
  int64_t consumed_bytes() const override { return file_->consumed_bytes(); }

 private:
  std::unique_ptr<FileStream> file_;
  std::vector<char> input_;
  ZSTD_DStream* state_;
  ZSTD_inBuffer pending_ = {nullptr, 0, 0};
  bool inside_frame_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_raw_stream(const std::filesystem::path& path) {
  return std::make_unique<FileStream>(path);
}

std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path) {
  auto file = std::make_unique<FileStream>(path);
  std::string start = file->peek(4);
  if (start.starts_with("\x1F\x8B")) {
    return std::make_unique<GzipStream>(std::move(file));
  }
  if (start.starts_with("\x28\xB5\x2F\xFD")) {
    return std::make_unique<ZstdStream>(std::move(file));
  }
  return file;
}

}  // namespace snug
