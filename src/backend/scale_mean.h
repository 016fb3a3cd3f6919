// The mean of a tensor's scales, from which nested scales are counted.
#pragma once

#include <span>

namespace snug {

// In fp32, added up in the order in which torch does it on one thread, so that the bits are bitsandbytes'.
float mean_of_scales(std::span<const float> scales);

}  // namespace snug
