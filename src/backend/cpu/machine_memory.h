// How much memory this process may use: the machine's, or its container's if that is less.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace snug {

// MemTotal, limited by the control groups (version 1 or 2) that the process is in. `root` stands before
// /proc and /sys, so that tests can bring their own.
int64_t machine_memory_bytes(const std::string& root = "");

// MemAvailable, and no more than the above; nothing where the system does not tell.
std::optional<int64_t> available_memory_bytes(const std::string& root = "");

}  // namespace snug
