// The losses of a run as a picture for its model card.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

inline constexpr const char* kCurveFile = "loss_curve.svg";
// Points are thinned, so that no run's picture is larger.
inline constexpr int64_t kMostCurveBytes = 32 << 10;

// Of the rows of metrics.jsonl; "" where there are not two steps to draw a line between.
std::string curve_svg(std::string_view rows);

}  // namespace snug
