// The bytes of a data file, decompressed where its content is gzip or zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace snug {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  // Up to `size` bytes; 0 only at the end. Throws bad_input for a file that is damaged, environment_error for
  // one that cannot be read to its end or changes meanwhile.
  virtual size_t read(char* buffer, size_t size) = 0;
  // Of the file itself, before decompression: how far reading has come.
  virtual int64_t consumed_bytes() const = 0;

 protected:
  ByteStream() = default;
};

// Throws bad_input if there is no such file, environment_error if it cannot be opened.
std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path);
// The same without decompression.
std::unique_ptr<ByteStream> open_raw_stream(const std::filesystem::path& path);

}  // namespace snug
