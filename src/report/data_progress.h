// Reading and tokenizing as it goes: a line that is rewritten on a terminal, a line now and then elsewhere.
// On the error stream, so that what a command prints stays clean.
#pragma once

#include <chrono>
#include <string>

#include "data/tokens/tokenize_files.h"
#include "report/terminal.h"

namespace snug {

class DataProgressLine {
 public:
  DataProgressLine() : style_(Style::for_stderr()) {}
  ~DataProgressLine();
  DataProgressLine(const DataProgressLine&) = delete;
  DataProgressLine& operator=(const DataProgressLine&) = delete;

  void show(const DataProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  Style style_;
  std::string stage_;
  Clock::time_point stage_start_;
  Clock::time_point last_shown_;
  bool line_shown_ = false;
};

}  // namespace snug
