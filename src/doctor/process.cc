// Reading /proc/PID.
#include "doctor/process.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

namespace snug {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string user_name(uid_t user) {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  bool is_known = getpwuid_r(user, &entry, room.data(), room.size(), &found) == 0 && found != nullptr;
  return is_known ? found->pw_name : fmt::format("{}", user);
}

// When it was started, in seconds since the machine was: the 22nd field of `stat`, whose second one may hold
// anything between its parentheses.
double start_seconds(const std::string& stat) {
  size_t behind_name = stat.rfind(')');
  if (behind_name == std::string::npos) {
    return 0;
  }
  constexpr int kFieldsBetween = 19;  // the state is the third field
  std::istringstream fields(stat.substr(behind_name + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) {
    fields >> skipped;
  }
  double ticks = 0;
  fields >> ticks;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::optional<ProcessFacts> read_process(unsigned pid, const std::string& root) {
  std::string folder = fmt::format("{}/proc/{}", root, pid);
  struct stat owner {};
  if (::stat(folder.c_str(), &owner) != 0) {
    return std::nullopt;
  }
  ProcessFacts facts;
  facts.user = user_name(owner.st_uid);
  facts.command = contents(folder + "/cmdline");
  std::replace(facts.command.begin(), facts.command.end(), '\0', ' ');
  facts.command.erase(facts.command.find_last_not_of(' ') + 1);
  double uptime = 0;
  std::istringstream(contents(root + "/proc/uptime")) >> uptime;
  facts.seconds = std::max(uptime - start_seconds(contents(folder + "/stat")), 0.0);
  return facts;
}

}  // namespace snug
