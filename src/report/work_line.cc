// When there is something to say of work, and how.
#include "report/work_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/console.h"
#include "report/terminal.h"

namespace snug {
namespace {

struct WorkPace {
  double quiet_seconds;  // work that is over sooner says nothing
  double seconds_between;
};
constexpr WorkPace kOnALiveLine = {0.5, 0.1};
constexpr WorkPace kInAFile = {10, 30};
constexpr int kBar = 16;

}  // namespace

void WorkLine::show(const Work& work, Clock::time_point now) {
  if (work.what != what_) {
    what_ = work.what;
    start_ = now;
    last_said_.reset();
  }
  auto seconds_since = [&](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  double seconds = seconds_since(start_);
  bool is_wait = work.total == 0;
  const WorkPace& pace = line_.enabled() ? kOnALiveLine : kInAFile;
  bool is_soon = !is_wait && seconds < pace.quiet_seconds;
  if (is_soon || (last_said_ && seconds_since(*last_said_) < pace.seconds_between)) {
    return;
  }
  last_said_ = now;
  Style style = Style::of(stream_);
  std::vector<LinePart> parts = {{style.dim(work.what), 1}};
  if (!is_wait) {
    double share = std::min(static_cast<double>(work.done) / static_cast<double>(work.total), 1.0);
    parts.push_back({style.accent(progress_bar(work.done, work.total, kBar)), 2});
    parts.push_back({fmt::format("{:.0f}%", 100 * share), 0});
    if (!work.detail.empty()) {
      parts.push_back({work.detail, 4});
    }
    if (share > 0) {
      parts.push_back({format_duration(seconds * (1 - share) / share) + " left", 3});
    }
  }
  if (line_.enabled()) {
    line_.show(parts);
  } else {
    say(join_parts(parts, style.columns()) + "\n", stream_);
  }
}

void WorkLine::finish() {
  what_.clear();
}

}  // namespace snug
