// A curve in one line of characters.
#include <gtest/gtest.h>

#include <limits>

#include "report/loss_curve.h"

namespace snug {
namespace {

std::vector<CurvePoint> curve(const std::vector<double>& losses) {
  std::vector<CurvePoint> points;
  for (double loss : losses) {
    points.push_back({static_cast<double>(points.size() + 1), loss});
  }
  return points;
}

TEST(Sparkline, HasAHeightForEachPiece) {
  EXPECT_EQ(sparkline(curve({8, 7, 6, 5, 4, 3, 2, 1}), 8), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(sparkline(curve({8, 8, 1, 1}), 2), "█▁");
  EXPECT_EQ(sparkline(curve({2, 2, 2}), 12), "▁▁▁");
  EXPECT_EQ(sparkline(curve({2}), 12), "");
}

TEST(Sparkline, SurvivesWhatIsNotFinite) {
  EXPECT_EQ(sparkline(curve({2, 1, std::numeric_limits<double>::quiet_NaN()}), 3), "█▁█");
}

}  // namespace
}  // namespace snug
