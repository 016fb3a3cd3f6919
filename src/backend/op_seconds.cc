#include "backend/op_seconds.h"

#include <algorithm>

namespace snug {
namespace {

// Arithmetic hides memory, or memory arithmetic, but for this share of what is hidden.
constexpr double kNotHidden = 0.1;

}  // namespace

double seconds_of(const OpCost& cost, const DeviceRates& rates) {
  double arithmetic = cost.flops / (cost.efficiency * cost.rate * rates.product_flops);
  double memory = cost.bytes / rates.bytes_per_second;
  double apart_bytes = cost.apart_bytes + (rates.scales_rows ? 0 : cost.scaling_bytes);
  double work = std::max(arithmetic, memory) + kNotHidden * std::min(arithmetic, memory) +
                apart_bytes / rates.bytes_per_second;
  return work / rates.pace_of(cost.pace) + cost.starts * rates.seconds_per_op;
}

}  // namespace snug
