// Progress of the data.
#include "report/data_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "io/printable.h"
#include "report/console.h"

namespace snug {
namespace {

// Work that is over sooner says nothing.
constexpr double kQuietSeconds = 0.5;
constexpr double kTerminalSeconds = 0.1;
constexpr double kFileSeconds = 30;

}  // namespace

DataProgressLine::~DataProgressLine() {
  if (line_shown_) {
    say("\r\x1b[K", stderr);
  }
}

void DataProgressLine::show(const DataProgress& progress) {
  Clock::time_point now = Clock::now();
  auto seconds_since = [&](Clock::time_point start) {
    return std::chrono::duration<double>(now - start).count();
  };
  if (progress.stage != stage_) {
    stage_ = progress.stage;
    stage_start_ = now;
    last_shown_ = {};
  }
  double seconds = seconds_since(stage_start_);
  bool is_wait = progress.total_bytes == 0;
  bool soon = last_shown_ != Clock::time_point() &&
              seconds_since(last_shown_) < (style_.enabled() ? kTerminalSeconds : kFileSeconds);
  if (soon || (seconds < kQuietSeconds && !is_wait)) {
    return;
  }
  last_shown_ = now;
  std::string line = fmt::format("  {}", style_.dim(printable(progress.stage)));
  if (!is_wait) {
    double share = static_cast<double>(progress.done_bytes) / static_cast<double>(progress.total_bytes);
    double left = share > 0 ? seconds * std::max(1 - share, 0.0) / share : 0;
    line += fmt::format(" {} {:.0f}%", style_.accent(progress_bar(progress.done_bytes, progress.total_bytes)),
                        100 * std::min(share, 1.0));
    if (progress.rows > 0) {
      line += fmt::format("  {} rows, {} rows/s", format_count(progress.rows),
                          format_count(static_cast<int64_t>(static_cast<double>(progress.rows) / seconds)));
    }
    line += fmt::format("  {} left", format_duration(left));
  }
  if (style_.enabled()) {
    say("\r\x1b[K" + line, stderr);
    line_shown_ = true;
  } else {
    say(line + "\n", stderr);
  }
}

}  // namespace snug
