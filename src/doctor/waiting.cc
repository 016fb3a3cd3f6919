// Looking again and again.
#include "doctor/waiting.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "report/terminal.h"

namespace snug {
namespace {

constexpr int kPollSeconds = 2;
constexpr int64_t kTellSeconds = 60;

std::string describe(const DeviceMemory& memory, int64_t wanted_bytes) {
  std::string text = fmt::format("waiting for {} on {}; {} are free\n", format_bytes(wanted_bytes),
                                 memory.device, format_bytes(memory.free_bytes));
  for (const std::string& holder : memory.holders) {
    text += fmt::format("  {}\n", holder);
  }
  return text;
}

}  // namespace

WaitResult wait_for_memory(int64_t wanted_bytes, const Waiting& waiting) {
  int64_t waited_seconds = 0;
  int64_t told_at = -kTellSeconds;
  std::string told;
  while (true) {
    if (waiting.should_stop()) {
      return WaitResult::stopped;
    }
    std::optional<DeviceMemory> now = waiting.look();
    if (!now || now->free_bytes >= wanted_bytes) {
      if (waited_seconds > 0) {
        waiting.tell(
            fmt::format("there is room after {}\n", format_duration(static_cast<double>(waited_seconds))));
      }
      return WaitResult::has_room;
    }
    if (waiting.most_minutes && waited_seconds >= 60 * *waiting.most_minutes) {
      return WaitResult::too_long;
    }
    std::string text = describe(*now, wanted_bytes);
    if (waited_seconds - told_at >= kTellSeconds && text != told) {
      waiting.tell(text);
      told = text;
      told_at = waited_seconds;
    }
    waiting.sleep(kPollSeconds);
    waited_seconds += kPollSeconds;
  }
}

}  // namespace snug
