// Appending rows.
#include "train/metrics_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace snug {

MetricsFile::MetricsFile(const std::filesystem::path& path)
    : path_(path), file_(std::fopen(path.c_str(), "w")) {
  if (file_ == nullptr) {
    throw environment_error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  }
}

MetricsFile::~MetricsFile() {
  std::fclose(file_);
}

void MetricsFile::append(const Json& row) {
  std::string line = row.dump() + "\n";
  bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
  if (!written) {
    throw environment_error(fmt::format("{}: cannot be written: {}; free some space and start the run again",
                                        path_.string(), std::strerror(errno)));
  }
}

}  // namespace snug
