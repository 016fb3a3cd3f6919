// One compiled phase a plan.
#include "plan/micro_batch_plans.h"

#include <algorithm>
#include <utility>

#include "compile/phases.h"
#include "plan/layout.h"
#include "plan/speed.h"
#include "plan/training.h"

namespace snug {

MicroBatchPlans::MicroBatchPlans(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                 const LimitsOf& limits)
    : spec_(spec), device_(device), limits_(limits) {
  Plan plan = plan_for_peak(recipe, spec, device, limits);
  load_.context_bytes = plan.context_bytes;
  load_.limit_bytes = plan.limit_bytes;
  for (PhasePlan& phase : plan.phases) {
    if (phase.name() == kTrainPhase) {
      continue;
    }
    other_bytes_ = std::max(other_bytes_, phase.device().peak_bytes);
    if (phase.name() == kLoadPhase) {
      load_.phases.push_back(std::move(phase));
    } else if (phase.name() == kUpdatePhase) {
      update_ = std::move(phase);
    }
  }
}

MicroBatchPlan MicroBatchPlans::with(const Recipe& recipe, const DeviceRates& rates) {
  RunLimits batches = limits_ ? limits_(recipe) : recipe_limits(recipe, spec_);
  if (built_.ops.empty() || built_limits_ != batches.train) {
    built_ = build_micro_batch(recipe, spec_, batches.train);
    built_limits_ = batches.train;
  }
  MicroBatchPlan plan;
  std::vector<Program> programs(1);
  programs.front() = finish_micro_batch(built_, recipe, spec_);
  plan.train = std::move(plan_phases(load_, std::move(programs), device_).front());
  plan.step = batches.step;
  plan.peak_bytes = std::max(other_bytes_, plan.train.device().peak_bytes) + load_.context_bytes;
  plan.seconds = step_seconds(plan.train.program, update_.program, plan.step, rates);
  return plan;
}

int64_t MicroBatchPlans::room_bytes() const {
  return load_.limit_bytes.value() - load_.context_bytes - persistent_bytes(layout_of(load_.phases.front()));
}

}  // namespace snug
