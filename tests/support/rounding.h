// How far results in fp32 may lie from exact ones: from how often something is rounded and how much the
// result depends on it, never from what one machine showed. Matrix products add up in another order on every
// processor (tools/test_cores.sh).
#pragma once

#include <cmath>

namespace snug {

// One rounding changes a number by at most this much of it: half a unit in fp32's last place.
inline constexpr double kRounding = 0x1p-24;

// The error after this many roundings, relative to the numbers that were rounded. They go up or down as it
// happens, so their sum grows like a random walk: with the square root. Four times that is seven standard
// deviations (a rounding is anywhere in +-kRounding), and for up to 16 roundings more than all of them
// together.
inline double fp32_error(double roundings) {
  return 4 * std::sqrt(roundings) * kRounding;
}

}  // namespace snug
