// Sums over ops.
#include "plan/speed.h"

#include <algorithm>
#include <cmath>

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

// The program for batches of this size, which may be smaller than what is planned.
Program sized(Program program, double tokens, double source_tokens, double sequences) {
  auto set = [&](Extent extent, double size) {
    for (Buffer& buffer : program.buffers) {
      for (Dim& dim : buffer.dims) {
        dim.max = dim.extent == extent ? std::min(dim.max, static_cast<int64_t>(std::ceil(size))) : dim.max;
      }
    }
  };
  set(Extent::tokens, tokens);
  set(Extent::source_tokens, source_tokens);
  if (sequences > 0) {
    set(Extent::sequences, sequences);
    set(Extent::offsets, std::ceil(sequences) + 1);
  }
  return program;
}

double planned_tokens(const Program& program, const char* name) {
  BufferId id = program.find(name);
  return id == kNoBuffer ? 0 : static_cast<double>(program.buffer(id).dims[0].max);
}

}  // namespace

SpeedEstimate estimate_speed(const Plan& plan, const DeviceRates& rates) {
  SpeedEstimate estimate;
  if (rates.product_flops <= 0 || rates.bytes_per_second <= 0) {
    return estimate;
  }
  const Program& train = plan.phase(kTrainPhase).program;
  auto times = static_cast<double>(plan.step.most);
  double tokens = planned_tokens(train, kIds);
  double source_tokens = planned_tokens(train, kSourceIds);
  estimate.tokens = times * (tokens + source_tokens);
  add_phase(estimate, sized(train, tokens, source_tokens, plan.step.sequences / times), times, rates);
  add_phase(estimate, plan.phase(kUpdatePhase).program, 1, rates);
  return estimate;
}

double step_seconds(const Plan& plan, const DeviceRates& rates) {
  const StepCut& step = plan.step;
  double times = step.expected.value_or(static_cast<double>(step.most));
  SpeedEstimate estimate;
  add_phase(estimate,
            sized(plan.phase(kTrainPhase).program, step.tokens / times, step.source_tokens / times,
                  step.sequences / times),
            times, rates);
  add_phase(estimate, plan.phase(kUpdatePhase).program, 1, rates);
  return estimate.seconds;
}

}  // namespace snug
