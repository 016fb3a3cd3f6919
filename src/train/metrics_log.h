// metrics.jsonl: one line a logged step or evaluation, readable while the run goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/appended_file.h"
#include "train/run_events.h"

namespace snug {

class MetricsLog : public RunListener {
 public:
  // Starts the file anew, with these rows of an earlier part of the run.
  MetricsLog(const std::filesystem::path& path, std::string_view earlier, const RunEvents& events)
      : file_(path, earlier), events_(events) {}

  // Rows that cannot be written do not end a run; of the first one it is warned.
  void on_row(const Json& row) override {
    if (!file_.append(row.dump() + "\n") && file_.records_lost() == 1) {
      events_.warn(file_.problem() + "; training goes on without these rows");
    }
  }
  std::string text() const { return file_.text(); }  // all rows so far
  int64_t rows_lost() const { return file_.records_lost(); }

 private:
  AppendedFile file_;
  const RunEvents& events_;
};

}  // namespace snug
