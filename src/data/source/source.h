// Reads data files piece by piece, in memory that does not grow with them: chunks of whole rows, which
// several threads can parse at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/files.h"
#include "data/source/stream.h"

namespace snug {

// What is known about a file once its beginning was read.
struct SourceFile {
  std::filesystem::path path;
  int64_t index = 0;  // among the files of the source
  FileKind kind = FileKind::json_lines;
  std::vector<std::string> columns;  // of CSV and TSV, from the header
};

// A row inside a chunk's bytes.
struct RowSpan {
  size_t offset = 0;
  size_t length = 0;
  int64_t line = 0;  // in the file, from 1
};

struct RowChunk {
  std::shared_ptr<const SourceFile> file;
  int64_t index = 0;        // chunks are numbered in the order of files and rows
  int64_t byte_offset = 0;  // in the file, decompressed
  int64_t first_row = 0;    // in the file
  std::string bytes;        // the rows, then kChunkPadding spaces
  std::vector<RowSpan> rows;

  std::string_view row(size_t i) const {
    return std::string_view(bytes).substr(rows[i].offset, rows[i].length);
  }
};

// What fast parsers may read beyond a row's end.
inline constexpr size_t kChunkPadding = 64;

struct SourceOptions {
  std::optional<FileKind> kind;              // else each file's name and content decide
  size_t chunk_bytes = size_t{4} << 20;      // about how much is handed out at once
  size_t read_bytes = size_t{1} << 20;       // at a time; a file's kind and header are known by the first
  size_t max_row_bytes = size_t{256} << 20;  // a larger row is an error: likely a lost quote or bracket
};

class RowScanner;

// One thread at a time may call next(); what it returns belongs to the caller.
class RowSource {
 public:
  explicit RowSource(std::vector<std::filesystem::path> files, SourceOptions options = {});
  ~RowSource();
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;

  // Nothing at the end of the last file. Throws bad_input or environment_error for a file that cannot be
  // read: missing, empty, damaged, changed meanwhile, not a list where one began.
  std::optional<RowChunk> next();

  const std::vector<std::filesystem::path>& files() const { return files_; }
  // How far it is through the bytes of all files, as they lie on disk.
  int64_t consumed_bytes() const;

 private:
  void open_file();
  void fill(size_t wanted_bytes);
  void read_header();
  bool cut_rows(RowChunk& chunk);
  void close_file();

  std::vector<std::filesystem::path> files_;
  SourceOptions options_;
  size_t next_file_ = 0;
  int64_t next_chunk_ = 0;
  int64_t closed_bytes_ = 0;  // of the files before the one that is open

  // Of the file that is open.
  std::shared_ptr<SourceFile> file_;
  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<RowScanner> scanner_;
  std::string buffer_;   // bytes that were read and not handed out
  bool at_end_ = false;  // the stream is used up
  int64_t offset_ = 0;   // of the buffer in the file
  int64_t line_ = 1;     // of the buffer's first byte
  int64_t rows_ = 0;     // handed out so far
};

}  // namespace snug
