// Work that takes a while and that people wait for: a live line on a terminal; elsewhere, where it takes
// long, a line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "report/live_line.h"

namespace snug {

struct Work {
  std::string what;  // "evaluating"
  int64_t done = 0;
  int64_t total = 0;   // 0: waiting for others, which is said at once
  std::string detail;  // what else there is to say, for wide screens
};

class WorkLine {
 public:
  using Clock = std::chrono::steady_clock;

  // `line` must outlive it; it is of the same stream.
  WorkLine(LiveLine& line, std::FILE* stream) : line_(line), stream_(stream) {}

  void show(const Work& work, Clock::time_point now = Clock::now());
  // The next work is new, whatever its name.
  void finish();

 private:
  LiveLine& line_;
  std::FILE* stream_;
  std::string what_;
  Clock::time_point start_;
  std::optional<Clock::time_point> last_said_;
};

}  // namespace snug
