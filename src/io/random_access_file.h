// A file that is read here and there, by position. Unlike a mapped file it may be cut short meanwhile: that
// is an error to be told, where touching a mapped page that is gone ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace snug {

class RandomAccessFile {
 public:
  // Throws Error naming the file and the cause: there is none, it is a folder or a pipe, it cannot be read.
  explicit RandomAccessFile(const std::filesystem::path& path);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  int64_t size_bytes() const { return size_bytes_; }  // when it was opened
  int descriptor() const { return descriptor_; }
  // Fills `bytes` from that position on. Throws environment_error if the file does not reach so far any more.
  void read_at(int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_bytes_ = 0;
};

}  // namespace snug
