// Rows of JSON in a file that grows, and that whoever writes it may begin anew.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/json.h"

namespace snug {

// `mark` stands for the bytes before `offset`: where these are others now, reading begins at 0 again. Lines
// that hold no object are passed over.
struct RowNews {
  int64_t from = 0;
  int64_t offset = 0;
  std::string mark;
  Json rows = Json::array();
  bool more = false;  // there is more than one answer should hold
};
RowNews read_new_rows(const std::filesystem::path& file, int64_t offset, std::string_view mark,
                      int64_t most_bytes = int64_t{4} << 20);

}  // namespace snug
