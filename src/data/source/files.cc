// Which files a recipe's names and patterns stand for, and what kind of file each is.
#include "data/source/files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"

namespace snug {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> matches(const fs::path& pattern) {
  glob_t found = {};
  std::vector<fs::path> paths;
  int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    if (!fs::is_directory(found.gl_pathv[i])) {
      paths.emplace_back(found.gl_pathv[i]);
    }
  }
  globfree(&found);
  if (result == GLOB_NOSPACE || result == GLOB_ABORTED) {
    throw environment_error(fmt::format("{}: the folders could not be searched.", pattern.string()));
  }
  std::sort(paths.begin(), paths.end());  // by bytes: the same on every machine, whatever its language
  return paths;
}

std::string inner_extension(fs::path path) {
  for (std::string_view compressed : {".gz", ".zst", ".gzip", ".zstd"}) {
    if (path.extension() == compressed) {
      path = path.stem();
      break;
    }
  }
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  });
  return extension;
}

}  // namespace

std::vector<fs::path> find_data_files(const std::vector<std::string>& patterns, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const std::string& pattern : patterns) {
    fs::path path = folder / pattern;
    bool is_pattern = pattern.find_first_of("*?[") != std::string::npos && !fs::exists(path);
    std::vector<fs::path> found = is_pattern ? matches(path) : std::vector<fs::path>{path};
    if (found.empty()) {
      throw bad_input(
          fmt::format("{}: no file matches this pattern. Patterns are relative to the recipe's folder.",
                      printable(path.string(), 300)));
    }
    for (fs::path& file : found) {
      if (std::find(files.begin(), files.end(), file) == files.end()) {
        files.push_back(std::move(file));
      }
    }
  }
  return files;
}

int64_t total_file_bytes(const std::vector<fs::path>& files) {
  int64_t total = 0;
  for (const fs::path& file : files) {
    std::error_code unknown;  // a pipe has no size, and a missing file is an error when its turn comes
    uintmax_t size = fs::file_size(file, unknown);
    total += unknown ? 0 : static_cast<int64_t>(size);
  }
  return total;
}

std::string_view describe(FileKind kind) {
  switch (kind) {
    case FileKind::json_lines:
      return "JSON, an object a line";
    case FileKind::json_array:
      return "a JSON list of objects";
    case FileKind::csv:
      return "CSV";
    case FileKind::tsv:
      return "tab-separated values";
    case FileKind::paragraphs:
      return "plain text, a paragraph between blank lines is an example";
    case FileKind::text_lines:
      return "plain text, a line is an example";
  }
  return "";
}

FileKind detect_file_kind(const fs::path& path, std::string_view start) {
  std::string extension = inner_extension(path);
  size_t first = start.find_first_not_of(" \t\r\n\f\v");
  char character = first == std::string_view::npos ? '\0' : start[first];
  if (extension == ".txt" || extension == ".text" || extension == ".md") {
    return FileKind::paragraphs;
  }
  if (extension == ".csv") {
    return FileKind::csv;
  }
  if (extension == ".tsv" || extension == ".tab") {
    return FileKind::tsv;
  }
  bool says_json = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
  if (character == '[' && (says_json || extension.empty())) {
    return FileKind::json_array;
  }
  return says_json || character == '{' ? FileKind::json_lines : FileKind::paragraphs;
}

}  // namespace snug
