// Reading /proc/meminfo and the memory limits of control groups.
#include "backend/cpu/machine_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include "base/error.h"

namespace snug {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr const char* kMeminfo = "/proc/meminfo";

// A line of /proc/meminfo, which is in KiB.
std::optional<int64_t> meminfo_bytes(const std::string& root, const std::string& wanted) {
  std::ifstream file(root + kMeminfo);
  std::string key;
  int64_t kibibytes = 0;
  std::string rest;
  while (file >> key >> kibibytes && std::getline(file, rest)) {
    if (key == wanted) {
      return kibibytes * 1024;
    }
  }
  return std::nullopt;
}

// The number in a limit file; kUnlimited if the file is missing, says "max", or holds no number.
int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) {
    return kUnlimited;
  }
  int64_t limit = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  return error == std::errc() && end == text.data() + text.size() ? limit : kUnlimited;
}

// The smallest limit of a group and of all groups above it. In a container the group's own path may not be
// visible, only the root that the container was given: the walk ends there.
int64_t limit_of_group(const std::string& mount, std::string group, const std::string& file_name) {
  int64_t limit = kUnlimited;
  while (true) {
    limit = std::min(limit, limit_in(mount + group + "/" + file_name));
    size_t slash = group.rfind('/');
    if (slash == std::string::npos) {
      return limit;
    }
    group.resize(slash);
  }
}

bool names_memory_controller(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

int64_t machine_memory_bytes(const std::string& root) {
  std::optional<int64_t> of_machine = meminfo_bytes(root, "MemTotal:");
  if (!of_machine) {
    throw environment_error(
        fmt::format("{}{}: no MemTotal found; cannot tell how much memory there is", root, kMeminfo));
  }
  int64_t total = *of_machine;
  // Lines "id:controllers:path"; version 2 has the one line "0::path".
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") {
      group.clear();
    }
    if (controllers.empty()) {
      total = std::min(total, limit_of_group(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (names_memory_controller(controllers)) {
      total = std::min(total, limit_of_group(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return total;
}

std::optional<int64_t> available_memory_bytes(const std::string& root) {
  std::optional<int64_t> available = meminfo_bytes(root, "MemAvailable:");
  return available ? std::optional(std::min(*available, machine_memory_bytes(root))) : std::nullopt;
}

}  // namespace snug
