// Distributions over the counter-based generator.
#include "base/rng.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace snug {

float Rng::normal() {
  // Box-Muller; 1 - u keeps the logarithm's argument above 0.
  float radius = std::sqrt(-2.0F * std::log(1.0F - uniform()));
  return radius * std::cos(2.0F * std::numbers::pi_v<float> * uniform());
}

uint64_t Rng::below(uint64_t bound) {
  SNUG_CHECK(bound > 0, "an empty range has no random element");
  uint64_t limit = bound * (UINT64_MAX / bound);  // the largest multiple: above it the draw is biased
  uint64_t word = next_u64();
  while (word >= limit) {
    word = next_u64();
  }
  return word % bound;
}

}  // namespace snug
