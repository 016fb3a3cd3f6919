// A process of this machine, as /proc tells of it.
#pragma once

#include <optional>
#include <string>

namespace snug {

struct ProcessFacts {
  std::string user;     // its name, or its number where it has none
  std::string command;  // with its arguments
  double seconds = 0;   // since it was started
};

// Nothing for one that is not there, or not to be seen from here (another container's). `root` stands before
// /proc, so that tests can bring their own.
std::optional<ProcessFacts> read_process(unsigned pid, const std::string& root = "");

}  // namespace snug
