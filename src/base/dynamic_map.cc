// Midpoints of evenly spaced points, decade by decade.
#include "base/dynamic_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace snug {

DynamicMap dynamic_map(bool is_signed) {
  constexpr int kDecades = 7;
  constexpr float kFirst = 0.1F;
  constexpr float kLast = 1.0F;
  DynamicMap map{};
  size_t count = 0;
  for (int decade = 0; decade < kDecades; ++decade) {
    int points = (is_signed ? 1 << decade : 2 << decade) + 1;
    float step = (kLast - kFirst) / static_cast<float>(points - 1);
    // From both ends, as torch.linspace does.
    auto point = [&](int i) {
      return i < points / 2 ? std::fma(step, static_cast<float>(i), kFirst)
                            : std::fma(-step, static_cast<float>(points - 1 - i), kLast);
    };
    auto power = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
    for (int i = 0; i + 1 < points; ++i) {
      float value = (point(i) + point(i + 1)) / 2 * power;
      map[count++] = value;
      if (is_signed) {
        map[count++] = -value;
      }
    }
  }
  map[count++] = 0;
  map[count++] = 1;
  SNUG_CHECK(count == map.size(), "the dynamic map has 256 values");
  std::sort(map.begin(), map.end());
  return map;
}

}  // namespace snug
