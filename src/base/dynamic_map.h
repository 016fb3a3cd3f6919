// The 256 values of the dynamic codings of 8 bits: seven decades, each with twice as many values as the one
// below it.
#pragma once

#include <array>

#include "base/format.h"

namespace snug {

using DynamicMap = std::array<float, kDynamicMapEntries>;

// Ascending. With signs, or of positive values alone, of which there are twice as many then.
DynamicMap dynamic_map(bool is_signed = true);

}  // namespace snug
