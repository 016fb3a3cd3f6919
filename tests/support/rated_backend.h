// The CPU with a card's kind of rates, on which recomputation costs what it does on cards, and what plans
// take there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "plan/speed.h"
#include "plan/training.h"

namespace snug {

class RatedBackend : public CpuBackend {
 public:
  explicit RatedBackend(double bytes_per_second = 1e9) : bytes_per_second_(bytes_per_second) {}
  DeviceRates rates(DType /*dtype*/) const override {
    return {.product_flops = 100e9,
            .ceiling_flops = 100e9,
            .bytes_per_second = bytes_per_second_,
            .seconds_per_op = 1e-6};
  }

 private:
  double bytes_per_second_;
};

struct PlanCost {
  int64_t peak_bytes = 0;
  double seconds = 0;  // a step
};

inline PlanCost plan_cost(const Recipe& recipe, const ModelSpec& spec, const RatedBackend& backend) {
  Plan plan = plan_training(recipe, spec, backend);
  return {plan.peak_bytes(), step_seconds(plan, backend.rates(DType::f32))};
}

inline int64_t least_bytes(const std::vector<PlanCost>& all) {
  return std::ranges::min_element(all, {}, &PlanCost::peak_bytes)->peak_bytes;
}

inline int64_t most_bytes(const std::vector<PlanCost>& all) {
  return std::ranges::max_element(all, {}, &PlanCost::peak_bytes)->peak_bytes;
}

// The seconds of the fastest that fits.
inline double fastest(const std::vector<PlanCost>& all, int64_t limit_bytes) {
  double best = std::numeric_limits<double>::infinity();
  for (const PlanCost& one : all) {
    best = one.peak_bytes <= limit_bytes ? std::min(best, one.seconds) : best;
  }
  return best;
}

}  // namespace snug
