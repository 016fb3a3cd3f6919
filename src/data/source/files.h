// Which files a recipe's names and patterns stand for, and what kind of file each is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// Names and patterns (*, ?, [a-z] in any part) relative to `folder`, as files: sorted within a pattern, each
// once. Throws bad_input if one of them matches nothing.
std::vector<std::filesystem::path> find_data_files(const std::vector<std::string>& patterns,
                                                   const std::filesystem::path& folder);

// As they lie on disk.
int64_t total_file_bytes(const std::vector<std::filesystem::path>& files);

enum class FileKind : uint8_t {
  json_lines,  // an object a line
  json_array,  // one list of objects
  csv,         // RFC 4180, with a header
  tsv,         // the same with tabs
  paragraphs,  // plain text, an example between blank lines
  text_lines,  // plain text, an example a line
};

std::string_view describe(FileKind kind);

// By the name without .gz or .zst, and where that says nothing or too much, by how the text begins.
FileKind detect_file_kind(const std::filesystem::path& path, std::string_view start);

}  // namespace snug
