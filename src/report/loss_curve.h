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

// The mean of each point and its neighbours, as many to the right as to the left: the first and the last
// point keep their loss, so that the curve begins and ends where the run did.
std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points);

// `columns` x `rows` characters of Braille dots with labelled axes; "" for fewer than two points.
std::string loss_curve(const std::vector<CurvePoint>& points, int columns, int rows, const Style& style);

// One character for each piece of the curve, eight heights; "" for fewer than two points.
std::string sparkline(const std::vector<CurvePoint>& points, size_t characters);

}  // namespace snug
