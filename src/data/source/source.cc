// Reads data files piece by piece, in memory that does not grow with them.
#include "data/source/source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "data/rows/csv.h"
#include "data/source/binary.h"
#include "data/source/scanner.h"
#include "io/printable.h"

namespace snug {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

RowSource::RowSource(std::vector<std::filesystem::path> files, SourceOptions options)
    : files_(std::move(files)), options_(options) {}

RowSource::~RowSource() = default;

// Reads until the buffer holds that much, or the file ends.
void RowSource::fill(size_t wanted_bytes) {
  while (!at_end_ && buffer_.size() < wanted_bytes) {
    size_t old_size = buffer_.size();
    size_t step = std::min(options_.read_bytes, wanted_bytes - old_size);
    buffer_.resize(old_size + step);
    size_t count = stream_->read(buffer_.data() + old_size, step);
    buffer_.resize(old_size + count);
    at_end_ = count == 0;
  }
}

void RowSource::open_file() {
  const std::filesystem::path& path = files_[next_file_];
  stream_ = open_byte_stream(path);
  buffer_.clear();
  at_end_ = false;
  offset_ = 0;
  line_ = 1;
  rows_ = 0;
  fill(options_.read_bytes);
  if (buffer_.starts_with("\xFF\xFE") || buffer_.starts_with("\xFE\xFF")) {
    throw bad_input(
        fmt::format("{}: the file is UTF-16. Convert it with iconv -f utf-16 -t utf-8.", path.string()));
  }
  auto refuse_if = [&](const std::string& problem) {
    if (!problem.empty()) {
      throw bad_input(fmt::format("{}: {}.", path.string(), problem));
    }
  };
  refuse_if(binary_file_problem(buffer_, printable(path.filename().string())));
  if (buffer_.starts_with(kByteOrderMark)) {
    buffer_.erase(0, kByteOrderMark.size());
    offset_ = static_cast<int64_t>(kByteOrderMark.size());
  }
  if (buffer_.find_first_not_of(" \t\r\n\f\v") == std::string::npos && at_end_) {
    throw bad_input(fmt::format("{}: is empty; it needs at least one row, such as {{\"text\": \"...\"}}.",
                                path.string()));
  }
  file_ = std::make_shared<SourceFile>();
  file_->path = path;
  file_->index = static_cast<int64_t>(next_file_);
  file_->kind = options_.kind.value_or(detect_file_kind(path, buffer_));
  if (file_->kind == FileKind::paragraphs || file_->kind == FileKind::text_lines) {
    refuse_if(unreadable_text_problem(buffer_));
  }
  scanner_ = make_row_scanner(file_->kind);
  ++next_file_;
  if (file_->kind == FileKind::csv || file_->kind == FileKind::tsv) {
    read_header();
  }
}

// The first record names the columns. It is read with a scanner of its own.
void RowSource::read_header() {
  std::string place = fmt::format("{}:1", file_->path.string());
  ScanResult found = make_row_scanner(file_->kind)->scan(buffer_, at_end_);
  if (found.rows.empty()) {
    throw bad_input(fmt::format("{}: the header has no end; is a quote missing?", place));
  }
  RowSpan header = found.rows[0];
  std::string_view text = std::string_view(buffer_).substr(header.offset, header.length);
  CsvRecord record = parse_csv_record(text, file_->kind == FileKind::csv ? ',' : '\t');
  if (!record.problem.empty() || valid_utf8_prefix_bytes(text) < text.size()) {
    throw bad_input(fmt::format("{}: the header cannot be read: {}.", place,
                                record.problem.empty() ? "it is not UTF-8" : record.problem));
  }
  for (std::string& name : record.fields) {
    bool is_new = std::find(file_->columns.begin(), file_->columns.end(), name) == file_->columns.end();
    if (!is_new) {
      throw bad_input(fmt::format("{}: the column {} is there twice; give each its own name.", place,
                                  in_quotes(name, 60)));
    }
    file_->columns.push_back(std::move(name));
  }
  size_t end = header.offset + header.length;
  end += buffer_.compare(end, 2, "\r\n") == 0 ? 2 : end < buffer_.size() ? 1 : 0;
  line_ += std::count(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  offset_ += static_cast<int64_t>(end);
  buffer_.erase(0, end);
}

// Moves the whole rows of the buffer into the chunk; false if there are none yet.
bool RowSource::cut_rows(RowChunk& chunk) {
  ScanResult found = scanner_->scan(buffer_, at_end_);
  if (found.used_bytes == 0) {
    return false;
  }
  for (RowSpan& row : found.rows) {
    row.line += line_;
  }
  chunk.byte_offset = offset_;
  chunk.first_row = rows_;
  chunk.rows = std::move(found.rows);
  std::string rest(buffer_, found.used_bytes);
  buffer_.resize(found.used_bytes);
  buffer_.append(kChunkPadding, ' ');
  chunk.bytes = std::move(buffer_);
  buffer_ = std::move(rest);
  offset_ += static_cast<int64_t>(found.used_bytes);
  line_ += found.used_lines;
  rows_ += static_cast<int64_t>(chunk.rows.size());
  return true;
}

void RowSource::close_file() {
  std::string problem = scanner_->problem_at_end();
  if (!problem.empty()) {
    throw bad_input(fmt::format("{}:{}: {}.", file_->path.string(), line_, problem));
  }
  closed_bytes_ += stream_->consumed_bytes();
  file_.reset();
  stream_.reset();
  scanner_.reset();
}

int64_t RowSource::consumed_bytes() const {
  return closed_bytes_ + (stream_ ? stream_->consumed_bytes() : 0);
}

std::optional<RowChunk> RowSource::next() {
  while (true) {
    if (!file_) {
      if (next_file_ == files_.size()) {
        return std::nullopt;
      }
      open_file();
    }
    RowChunk chunk;
    size_t wanted = options_.chunk_bytes;
    fill(wanted);
    while (!buffer_.empty() && !cut_rows(chunk) && !at_end_) {
      wanted = std::max(wanted, buffer_.size()) * 2;  // one row is larger than a chunk
      if (buffer_.size() > options_.max_row_bytes) {
        throw bad_input(fmt::format(
            "{}:{}: a row begins here that is larger than {} MB; is a quote, a bracket or a line end "
            "missing?",
            file_->path.string(), line_, options_.max_row_bytes >> 20));
      }
      fill(wanted);
    }
    if (!chunk.rows.empty()) {
      chunk.file = file_;
      chunk.index = next_chunk_++;
      return chunk;
    }
    if (at_end_ && buffer_.empty()) {
      close_file();
    }
  }
}

}  // namespace snug
