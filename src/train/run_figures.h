// How far a run came and how fast, by its metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"

namespace snug {

struct RunFigures {
  int64_t steps = 0;
  std::optional<double> first_loss;
  std::optional<double> last_loss;
  std::optional<double> eval_loss;          // of the last evaluation
  std::optional<double> best_eval_loss;     // the lowest
  std::optional<double> tokens_per_second;  // the median of the logged steps
  std::optional<double> last_time;          // of the newest row, in seconds since 1970
};

// Of a file that may be growing: asked again, only what is new in it is read.
class MetricsReader {
 public:
  RunFigures read(const std::filesystem::path& file);

 private:
  void add(const Json& row);

  int64_t offset_ = 0;
  std::string mark_;
  RunFigures figures_;
  std::vector<double> speeds_;
};

}  // namespace snug
