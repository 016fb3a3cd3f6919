// Data files from arbitrary bytes, of every kind and format: reading them ends in rows, broken rows or an
// Error, and the size of the chunks makes no difference.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "data/rows/parser.h"
#include "data/source/source.h"
#include "memory_file.h"

namespace {

constexpr size_t kReadBytes = size_t{1} << 14;

// A parser keeps its buffers, and what it makes of a chunk depends on the chunk alone: one serves all inputs.
std::array<snug::RowParser, 5>& parsers() {
  static std::array<snug::RowParser, 5> all = {snug::RowParser(snug::named_row_format("messages")),
                                               snug::RowParser(snug::named_row_format("conversations")),
                                               snug::RowParser(snug::named_row_format("instruction")),
                                               snug::RowParser(snug::named_row_format("prompt_completion")),
                                               snug::RowParser(snug::named_row_format("text"))};
  return all;
}

void parse(const snug::RowChunk& chunk) {
  for (snug::RowParser& parser : parsers()) {
    snug::ParsedChunk parsed = parser.parse(chunk);
    SNUG_CHECK(parsed.rows.size() + parsed.bad.size() == chunk.rows.size(), "each row is good or bad");
  }
  try {
    snug::detect_row_format(chunk);
  } catch (const snug::Error& error) {
    SNUG_CHECK(error.kind() == snug::ErrorKind::bad_input, error.what());
  }
}

// Every row with its line, as one text; nothing if the file is refused.
std::optional<std::string> read_all(const std::string& path, snug::FileKind kind, size_t chunk_bytes,
                                    bool parsed) {
  std::string seen;
  try {
    // Inputs are small: large buffers would be most of the work.
    snug::RowSource source({path}, {.kind = kind, .chunk_bytes = chunk_bytes, .read_bytes = kReadBytes});
    while (std::optional<snug::RowChunk> chunk = source.next()) {
      for (size_t i = 0; i < chunk->rows.size(); ++i) {
        seen += std::to_string(chunk->rows[i].line) + ":" + std::string(chunk->row(i)) + "\n";
      }
      if (parsed) {
        parse(*chunk);
      }
    }
  } catch (const snug::Error& error) {
    SNUG_CHECK(error.kind() == snug::ErrorKind::bad_input, error.what());
    return std::nullopt;
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  auto kind = static_cast<snug::FileKind>(data[0] % 6);
  MemoryFile file({reinterpret_cast<const char*>(data + 2), size - 2});
  std::optional<std::string> in_one = read_all(file.path(), kind, kReadBytes, data[1] % 2 == 0);
  std::optional<std::string> in_pieces = read_all(file.path(), kind, size_t{1} + data[1], data[1] % 2 == 1);
  SNUG_CHECK(in_one == in_pieces, "the rows depend on the size of the chunks");
  return 0;
}
