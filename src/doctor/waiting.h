// Waiting until a device has the memory that a run needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace snug {

// What a device has now.
struct DeviceMemory {
  std::string device;  // for people
  int64_t free_bytes = 0;
  std::vector<std::string> holders;  // of the rest, a line each
};

struct Waiting {
  std::function<std::optional<DeviceMemory>()> look;  // nothing: nobody can tell
  std::function<bool()> should_stop;
  std::function<void(int seconds)> sleep;
  std::function<void(const std::string& text)> tell;
  std::optional<int64_t> most_minutes;  // nothing: for ever
};

enum class WaitResult { has_room, stopped, too_long };

// Returns at once where there is room, or where nobody can tell. Else it says who holds the memory, and again
// when that has changed, no more than once a minute.
WaitResult wait_for_memory(int64_t wanted_bytes, const Waiting& waiting);

}  // namespace snug
