// Sums over ops.
#include "plan/speed.h"

#include "compile/phases.h"
#include "ops/table.h"
#include "program/names.h"

namespace snug {
namespace {

// More operations a byte than this, and the matrix units set the pace.
constexpr double kProductIntensity = 8;

// Arithmetic and memory are added, not overlapped: that is what thin products were seen to cost.
void add_phase(SpeedEstimate& estimate, const Program& program, double times, const DeviceRates& rates) {
  for (const Op& op : program.ops) {
    OpCost cost = cost_of(program, op);
    double seconds = cost.flops / (cost.efficiency * rates.product_flops) +
                     cost.bytes / rates.bytes_per_second + rates.seconds_per_op;
    estimate.seconds += times * seconds;
    bool is_product = cost.flops > kProductIntensity * cost.bytes;
    estimate.ceiling_seconds += is_product ? times * cost.flops / rates.ceiling_flops : 0;
  }
}

double planned_tokens(const Program& program, const char* name) {
  BufferId id = program.find(name);
  return id == kNoBuffer ? 0 : static_cast<double>(program.buffer(id).dims[0].max);
}

}  // namespace

SpeedEstimate estimate_speed(const Plan& plan, int64_t accumulation_steps, const DeviceRates& rates) {
  SpeedEstimate estimate;
  if (rates.product_flops <= 0 || rates.bytes_per_second <= 0) {
    return estimate;
  }
  const Program& train = plan.phase(kTrainPhase).program;
  auto times = static_cast<double>(accumulation_steps);
  estimate.tokens = times * (planned_tokens(train, kIds) + planned_tokens(train, kSourceIds));
  add_phase(estimate, train, times, rates);
  add_phase(estimate, plan.phase(kUpdatePhase).program, 1, rates);
  return estimate;
}

}  // namespace snug
