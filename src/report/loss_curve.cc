// Losses as dots.
#include "report/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/braille.h"

namespace snug {
namespace {

// Of the points, to each side; less towards the ends.
constexpr double kSmoothedShare = 0.02;

}  // namespace

std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points) {
  std::vector<double> sums = {0};
  for (const CurvePoint& point : points) {
    sums.push_back(sums.back() + point.loss);
  }
  auto widest = static_cast<size_t>(std::lround(kSmoothedShare * static_cast<double>(points.size())));
  std::vector<CurvePoint> result = points;
  for (size_t i = 0; i < points.size(); ++i) {
    size_t side = std::min({i, points.size() - 1 - i, widest});
    if (side == 0) {
      continue;  // exactly, not to the rounding of the sums
    }
    result[i].loss = (sums[i + side + 1] - sums[i - side]) / static_cast<double>(2 * side + 1);
  }
  return result;
}

std::string loss_curve(const std::vector<CurvePoint>& points, int columns, int rows, const Style& style) {
  if (points.size() < 2) {
    return "";
  }
  auto by_loss = [](const CurvePoint& a, const CurvePoint& b) { return a.loss < b.loss; };
  auto [lowest, highest] = std::minmax_element(points.begin(), points.end(), by_loss);
  double low = lowest->loss;
  double span = std::max(highest->loss - low, 1e-9);
  double first = points.front().step;
  double steps = std::max(points.back().step - first, 1e-9);

  BrailleCanvas canvas(columns, rows);
  auto x_of = [&](const CurvePoint& p) { return (p.step - first) / steps * (canvas.width() - 1); };
  auto y_of = [&](const CurvePoint& p) { return (1.0 - (p.loss - low) / span) * (canvas.height() - 1); };
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    double x0 = x_of(points[i]);
    double y0 = y_of(points[i]);
    double x1 = x_of(points[i + 1]);
    double y1 = y_of(points[i + 1]);
    int count = 1 + static_cast<int>(std::max(std::abs(x1 - x0), std::abs(y1 - y0)));
    for (int k = 0; k <= count; ++k) {
      double t = static_cast<double>(k) / count;
      canvas.dot(static_cast<int>(std::lround(x0 + t * (x1 - x0))),
                 static_cast<int>(std::lround(y0 + t * (y1 - y0))));
    }
  }
  std::string text;
  for (int row = 0; row < rows; ++row) {
    double value = highest->loss - span * row / std::max(rows - 1, 1);
    bool labelled = row == 0 || row == rows - 1 || row == rows / 2;
    text +=
        fmt::format("  {} {}{}\n", style.dim(labelled ? fmt::format("{:7.3f}", value) : std::string(7, ' ')),
                    style.dim(labelled ? "┤" : "│"), style.accent(canvas.row(row)));
  }
  std::string axis = "          └";
  for (int i = 0; i < columns; ++i) {
    axis += "─";
  }
  std::string last_label = fmt::format("step {:g}", points.back().step);
  std::string first_label = fmt::format("{:g}", first);
  auto gap =
      static_cast<size_t>(std::max(1, columns - static_cast<int>(last_label.size() + first_label.size())));
  text += style.dim(axis) + "\n" +
          style.dim("           " + first_label + std::string(gap, ' ') + last_label) + "\n";
  return text;
}

std::string sparkline(const std::vector<CurvePoint>& points, size_t characters) {
  static constexpr std::array<const char*, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (points.size() < 2) {
    return "";
  }
  size_t pieces = std::min(characters, points.size());
  std::vector<double> means(pieces, 0);
  for (size_t i = 0; i < pieces; ++i) {
    size_t begin = i * points.size() / pieces;
    size_t end = (i + 1) * points.size() / pieces;
    for (size_t at = begin; at < end; ++at) {
      means[i] += points[at].loss / static_cast<double>(end - begin);
    }
  }
  // What is not finite stands as high as it gets, and spoils no other height.
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (double mean : means) {
    low = std::isfinite(mean) ? std::min(low, mean) : low;
    high = std::isfinite(mean) ? std::max(high, mean) : high;
  }
  std::string text;
  for (double mean : means) {
    double share = !std::isfinite(mean) ? 1 : high > low ? (mean - low) / (high - low) : 0;
    text += kHeights[static_cast<size_t>(std::lround(share * (kHeights.size() - 1)))];
  }
  return text;
}

}  // namespace snug
