// Reading what is new.
#include "io/growing_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMarkBytes = 256;

std::string mark_of(std::string_view text) {
  std::string_view end = text.substr(text.size() - std::min<size_t>(text.size(), kMarkBytes));
  return fmt::format("{:016x}", std::hash<std::string_view>()(end));
}

std::string bytes_between(std::ifstream& stream, int64_t begin, int64_t end) {
  std::string text(static_cast<size_t>(std::max<int64_t>(end - begin, 0)), '\0');
  stream.clear();
  stream.seekg(begin);
  stream.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

}  // namespace

RowNews read_new_rows(const fs::path& file, int64_t offset, std::string_view mark, int64_t most_bytes) {
  RowNews news;
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(0, std::ios::end);
  int64_t size = stream ? static_cast<int64_t>(stream.tellg()) : 0;
  bool goes_on = offset > 0 && offset <= size &&
                 mark_of(bytes_between(stream, std::max<int64_t>(offset - kMarkBytes, 0), offset)) == mark;
  news.from = goes_on ? offset : 0;
  std::string text = bytes_between(stream, news.from, std::min(size, news.from + most_bytes));
  size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);  // a run may be writing its last line now
  for (size_t begin = 0; begin < text.size();) {
    size_t line_end = text.find('\n', begin);
    if (std::optional<Json> row = find_object(std::string_view(text).substr(begin, line_end - begin))) {
      news.rows.push_back(std::move(*row));
    }
    begin = line_end + 1;
  }
  news.offset = news.from + std::ssize(text);
  news.mark = mark_of(bytes_between(stream, std::max<int64_t>(news.offset - kMarkBytes, 0), news.offset));
  news.more = !text.empty() && news.offset < size;
  return news;
}

}  // namespace snug
