// Drawing with Braille dots: 2 x 4 dots a character.
#include "report/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace snug {
namespace {

class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<size_t>(columns) * static_cast<size_t>(rows), 0) {}

  int width() const { return 2 * columns_; }
  int height() const { return 4 * rows_; }

  void dot(int x, int y) {
    // The bit of each dot within its character (Unicode's Braille patterns).
    static constexpr std::array<std::array<uint8_t, 2>, 4> kBits = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    x = std::clamp(x, 0, width() - 1);
    y = std::clamp(y, 0, height() - 1);
    cells_[cell_index(x / 2, y / 4)] |= kBits[static_cast<size_t>(y % 4)][static_cast<size_t>(x % 2)];
  }

  std::string row(int index) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      uint8_t bits = cells_[cell_index(column, index)];
      // U+2800 + bits in UTF-8.
      text += '\xE2';
      text += static_cast<char>(0xA0 | (bits >> 6));
      text += static_cast<char>(0x80 | (bits & 0x3F));
    }
    return text;
  }

 private:
  size_t cell_index(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }

  int columns_;
  int rows_;
  std::vector<uint8_t> cells_;
};

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

  Canvas canvas(columns, rows);
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

}  // namespace snug
