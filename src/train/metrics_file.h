// metrics.jsonl: one line a logged step or evaluation, readable while the run goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/json.h"

namespace snug {

class MetricsFile {
 public:
  // Starts the file anew, with these rows of an earlier part of the run.
  explicit MetricsFile(const std::filesystem::path& path, std::string_view earlier = "");
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // False if the line does not reach the file: it is left out as a whole, and the next one may succeed. A run
  // is not ended for that.
  bool append(const Json& row);
  std::string text() const;                                // all rows so far
  const std::string& problem() const { return problem_; }  // of the last row that was left out
  int64_t rows_lost() const { return rows_lost_; }

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;
  int64_t bytes_ = 0;  // of whole lines
  std::string problem_;
  int64_t rows_lost_ = 0;
};

}  // namespace snug
