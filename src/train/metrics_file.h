// metrics.jsonl: one line a logged step or evaluation, readable while the run goes on.
#pragma once

#include <cstdio>
#include <filesystem>

#include "io/json.h"

namespace snug {

class MetricsFile {
 public:
  explicit MetricsFile(const std::filesystem::path& path);  // starts an empty file
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // Throws environment_error if the line does not reach the file whole.
  void append(const Json& row);

 private:
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace snug
