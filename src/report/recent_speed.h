// The speed of the last steps, whatever the first ones were.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace snug {

// A median over the later half of all steps, up to 100 of them: the first steps, in which kernels are loaded
// and graphs recorded, fall out of it, and a step that was held up does not move it.
class RecentSpeed {
 public:
  void add(int64_t tokens, double seconds) {
    ++steps_;
    seconds_ += seconds;
    speeds_.push_back(static_cast<double>(tokens) / std::max(seconds, 1e-9));
    if (speeds_.size() > kMostSteps) {
      speeds_.pop_front();
    }
  }

  // 0 before the first step.
  double median() const {
    if (speeds_.empty()) {
      return 0;
    }
    size_t count = std::min((steps_ + 1) / 2, kMostSteps);
    std::vector<double> recent(speeds_.end() - static_cast<std::ptrdiff_t>(count), speeds_.end());
    auto middle = recent.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(recent.begin(), middle, recent.end());
    return *middle;
  }

  // That so many further steps take, if they are as those so far.
  double seconds_for(int64_t steps) const {
    return steps_ == 0 ? 0 : seconds_ / static_cast<double>(steps_) * static_cast<double>(steps);
  }

 private:
  static constexpr size_t kMostSteps = 100;
  size_t steps_ = 0;
  double seconds_ = 0;
  std::deque<double> speeds_;  // the last kMostSteps of them
};

}  // namespace snug
