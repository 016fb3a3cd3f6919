// Adapters that have learned nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/buffer_reader.h"

namespace snug {

struct AdapterChange {
  std::vector<std::string> unchanged;  // modules
  int64_t all = 0;
};
// Of adapters that began at nothing: B is 0 until the first update that has a gradient for it.
AdapterChange find_unchanged_adapters(BufferReader& reader);

}  // namespace snug
