// Sums over ops.
#include "plan/speed.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/op_seconds.h"
#include "compile/phases.h"
#include "ops/table.h"
#include "program/names.h"

namespace snug {
namespace {

// More operations a byte than this, and the matrix units set the pace.
constexpr double kProductIntensity = 8;

// `sizes` has the program's buffers, at the sizes that count.
void add_phase(SpeedEstimate& estimate, const Program& program, const Program& sizes, double times,
               const DeviceRates& rates) {
  for (const Op& op : program.ops) {
    OpCost cost = cost_of(sizes, op);
    estimate.seconds += times * seconds_of(cost, rates);
    bool is_product = cost.flops > kProductIntensity * cost.bytes;
    estimate.ceiling_seconds += is_product ? times * cost.flops / (cost.rate * rates.ceiling_flops) : 0;
  }
}

// Of a micro-batch.
struct BatchSize {
  double tokens = 0;
  double source_tokens = 0;
  double sequences = 0;  // 0: not known
  double learned = 1;    // the share of the tokens that have a target
};

// The buffers alone, for batches of this size, which may be smaller than what is planned.
Program sized(const Program& program, const BatchSize& batch) {
  Extents most;
  most.fill(std::numeric_limits<int64_t>::max());
  auto set = [&](Extent extent, double size) {
    most[static_cast<size_t>(extent)] = static_cast<int64_t>(std::ceil(size));
  };
  set(Extent::tokens, batch.tokens);
  set(Extent::targets, batch.learned * batch.tokens);
  set(Extent::source_tokens, batch.source_tokens);
  if (batch.sequences > 0) {
    set(Extent::sequences, batch.sequences);
    set(Extent::offsets, std::ceil(batch.sequences) + 1);
  }
  Program sizes{.name = program.name, .buffers = {}, .ops = {}};
  sizes.buffers.reserve(program.buffers.size());
  for (const Buffer& planned : program.buffers) {
    // What has a size, without the names, which are most of what there is to copy.
    Buffer& buffer = sizes.buffers.emplace_back();
    buffer.format = planned.format;
    buffer.dims = planned.dims;
    if (planned.format.is_coded()) {
      for (const TensorPart& part : planned.parts) {
        buffer.parts.push_back({.names = {}, .row_begin = part.row_begin, .rows = part.rows});
      }
    }
    for (Dim& dim : buffer.dims) {
      dim.max = std::min(dim.max, most[static_cast<size_t>(dim.extent)]);
    }
  }
  return sizes;
}

double planned_tokens(const Program& program, const char* name) {
  BufferId id = program.find(name);
  return id == kNoBuffer ? 0 : static_cast<double>(program.buffer(id).dims[0].max);
}

BatchSize full_batch(const Program& program, double learned) {
  return {.tokens = planned_tokens(program, kIds),
          .source_tokens = planned_tokens(program, kSourceIds),
          .learned = learned};
}

}  // namespace

SpeedEstimate estimate_speed(const Plan& plan, const DeviceRates& rates) {
  SpeedEstimate estimate;
  if (rates.product_flops <= 0 || rates.bytes_per_second <= 0) {
    return estimate;
  }
  const Program& train = plan.phase(kTrainPhase).program;
  auto times = static_cast<double>(plan.step.most);
  BatchSize batch = full_batch(train, plan.step.learned);
  batch.sequences = plan.step.sequences / times;
  estimate.tokens = times * (batch.tokens + batch.source_tokens);
  add_phase(estimate, train, sized(train, batch), times, rates);
  const Program& update = plan.phase(kUpdatePhase).program;
  add_phase(estimate, update, update, 1, rates);
  return estimate;
}

double op_seconds(const Program& program, const Op& op, const DeviceRates& rates) {
  return seconds_of(cost_of(program, op), rates);
}

double program_seconds(const Program& program, double learned, const DeviceRates& rates) {
  SpeedEstimate estimate;
  add_phase(estimate, program, sized(program, full_batch(program, learned)), 1, rates);
  return estimate.seconds;
}

double expected_micro_batches(const StepCut& step) {
  return step.expected.value_or(static_cast<double>(step.most));
}

Program buffers_at_expected_size(const Program& program, const StepCut& step) {
  double times = expected_micro_batches(step);
  return sized(program, {.tokens = step.tokens / times,
                         .source_tokens = step.source_tokens / times,
                         .sequences = step.sequences / times,
                         .learned = step.learned});
}

double step_seconds(const Program& train, const Program& update, const StepCut& step,
                    const DeviceRates& rates) {
  SpeedEstimate estimate;
  add_phase(estimate, train, buffers_at_expected_size(train, step), expected_micro_batches(step), rates);
  add_phase(estimate, update, update, 1, rates);
  return estimate.seconds;
}

double step_seconds(const Plan& plan, const DeviceRates& rates) {
  return step_seconds(plan.phase(kTrainPhase).program, plan.phase(kUpdatePhase).program, plan.step, rates);
}

}  // namespace snug
