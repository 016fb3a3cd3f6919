// What was really written of an arena, held against the plan. The arena starts as noise; what is no longer
// noise has been written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace snug {

// No value that a kernel writes follows it, not even zeros or repeats. A single byte may be what it was by
// chance, a word of eight is not.
inline std::byte noise(int64_t offset) {
  uint64_t word = (static_cast<uint64_t>(offset) / 8 + 1) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::byte>((word ^ (word >> 29)) >> (offset % 8 * 8));
}

// `written` has a mark a byte of the device's arena, which may be missing by chance. Each phase has run at
// its full size: every buffer is written from its first word to its last, but scratch and staging, of which a
// run may need less; and nothing beside the buffers is. One line a difference.
inline std::vector<std::string> differences_from(const Plan& plan, const std::vector<bool>& written) {
  std::vector<std::string> found;
  std::vector<bool> planned(written.size(), false);
  for (const PhasePlan& phase : plan.phases) {
    for (size_t id = 0; id < phase.program.buffers.size(); ++id) {
      const Buffer& buffer = phase.program.buffers[id];
      if (phase.offsets[id] < 0 || buffer.home != Home::device) {
        continue;
      }
      auto begin = written.begin() + phase.offsets[id];
      int64_t bytes = buffer.max_bytes();
      std::fill_n(planned.begin() + phase.offsets[id], bytes, true);
      if (buffer.role == Role::workspace || buffer.role == Role::staging) {
        continue;  // a reserve: nobody need fill it
      }
      int64_t missing = 0;
      for (int64_t at = 0; at < bytes; at += 8) {
        int64_t size = std::min<int64_t>(8, bytes - at);
        bool any = std::find(begin + at, begin + at + size, true) != begin + at + size;
        missing += any ? 0 : size;
      }
      if (missing > 0) {
        found.push_back(phase.name() + ": " + std::to_string(missing) + " of " + std::to_string(bytes) +
                        " bytes of \"" + buffer.name + "\" are planned, but nobody writes them");
      }
    }
  }
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] && !planned[i]) {
      found.push_back("byte " + std::to_string(i) + " is written, but belongs to no buffer");
      break;
    }
  }
  return found;
}

}  // namespace snug
