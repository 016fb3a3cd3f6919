// A loss curve drawn with characters.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.h"

namespace snug {

struct CurvePoint {
  double step;
  double loss;
};

// `columns` x `rows` characters of Braille dots with labelled axes; "" for fewer than two points.
std::string loss_curve(const std::vector<CurvePoint>& points, int columns, int rows, const Style& style);

}  // namespace snug
