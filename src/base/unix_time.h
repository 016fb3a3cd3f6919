// The time of day, for what people and other programs read.
#pragma once

#include <chrono>
#include <cstdint>

namespace snug {

// Seconds since 1970, to the millisecond.
inline double unix_seconds() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return static_cast<double>(milliseconds) / 1000.0;
}

}  // namespace snug
