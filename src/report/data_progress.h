// Reading and tokenizing as it goes, on the error stream, so that what a command prints stays clean.
#pragma once

#include "data/tokens/tokenize_files.h"
#include "report/work_line.h"

namespace snug {

class DataProgressLine {
 public:
  DataProgressLine() : live_(stderr), line_(live_, stderr) {}

  void show(const DataProgress& progress);

 private:
  LiveLine live_;
  WorkLine line_;
};

}  // namespace snug
