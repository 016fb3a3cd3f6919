// The nearest code of a nested scale.
#include "base/code_formula.h"

#include <algorithm>

namespace snug {

uint8_t nested_code(const NestedMap& map, float scaled) {
  constexpr float kSteps = 65535.0F;
  float clamped = std::clamp(scaled, -1.0F, 1.0F);
  auto step = static_cast<uint16_t>(std::fma((clamped + 1.0F) * 0.5F, kSteps, 0.5F));
  float value = -1.0F + 2.0F * static_cast<float>(step) / kSteps;
  auto above = std::partition_point(
      map.begin(), map.end() - 1, [&](const float& level) { return 0.5F * (level + *(&level + 1)) < value; });
  return static_cast<uint8_t>(above - map.begin());
}

}  // namespace snug
