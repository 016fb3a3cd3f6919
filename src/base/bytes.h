// Byte counts: parsing "24GB" and "22.3GiB", printing, alignment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

// Every buffer starts at a multiple of this, and its planned size is rounded up to it: wide enough for
// every vector load and for cuBLASLt's preferred alignment.
inline constexpr int64_t kAlignment = 256;

constexpr int64_t align_up(int64_t value, int64_t alignment = kAlignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// "512", "512B", "1.5KB" (10^3), "24GB" (10^9), "22.3GiB" (2^30), "500 MiB"; case does not matter.
// Nothing if it is no size, negative, or more than an int64_t holds.
std::optional<int64_t> parse_bytes(std::string_view text);

// "22.30 GiB", "50.0 MiB", "512 B": binary units, because that is what drivers report.
std::string format_bytes(int64_t bytes);

// "7,615,616,512"
std::string format_count(int64_t count);

}  // namespace snug
