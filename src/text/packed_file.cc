// A whole file as bytes, unpacked where it is compressed with gzip.
#include "text/packed_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "io/atomic_file.h"

namespace snug {

namespace {

class Inflater {
 public:
  Inflater() { ready_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK; }  // 16: the gzip header
  ~Inflater() {
    if (ready_) {
      inflateEnd(&stream_);
    }
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream& stream() { return stream_; }
  bool ready() const { return ready_; }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

std::string unpack(const std::string& packed, const std::string& path, int64_t max_bytes) {
  Inflater inflater;
  if (!inflater.ready()) {
    throw environment_error(fmt::format("{}: zlib cannot start (out of memory?)", path));
  }
  z_stream& stream = inflater.stream();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    size_t before = text.size();
    if (static_cast<int64_t>(before) >= max_bytes) {
      throw bad_input(
          fmt::format("{}: unpacks to more than {} bytes; this is not a tokenizer.", path, max_bytes));
    }
    text.resize(before + std::max<size_t>(packed.size(), 65536));
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + before);
    stream.avail_out = static_cast<uInt>(text.size() - before);
    status = inflate(&stream, Z_NO_FLUSH);
    text.erase(text.size() - stream.avail_out);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw bad_input(fmt::format("{}: not a whole gzip file ({}). Download it again.", path,
                                  stream.msg != nullptr ? stream.msg : "it ends too early"));
    }
  }
  return text;
}

}  // namespace

std::string read_packed_file(const std::filesystem::path& path, int64_t max_bytes) {
  std::string bytes = read_text_file(path, max_bytes);
  return bytes.starts_with("\x1F\x8B") ? unpack(bytes, path.string(), max_bytes) : bytes;
}

}  // namespace snug
