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
                                 const LimitsOf& limits, const DeviceRates& rates)
    : spec_(spec), device_(device), limits_(limits), rates_(rates), first_recipe_(recipe) {
  Plan plan = plan_for_peak(recipe, spec, device, limits);
  load_.context_bytes = plan.context_bytes;
  load_.limit_bytes = plan.limit_bytes;
  for (PhasePlan& phase : plan.phases) {
    if (phase.name() == kTrainPhase) {
      first_.train = std::move(phase);
      continue;
    }
    other_bytes_ = std::max(other_bytes_, phase.device().peak_bytes);
    if (phase.name() == kLoadPhase) {
      load_.phases.push_back(std::move(phase));
    } else if (phase.name() == kUpdatePhase) {
      update_ = std::move(phase);
    }
  }
  first_.step = plan.step;
  complete(first_);
}

RunLimits MicroBatchPlans::batches_of(const Recipe& recipe) const {
  return limits_ ? limits_(recipe) : recipe_limits(recipe, spec_);
}

void MicroBatchPlans::complete(MicroBatchPlan& plan) const {
  plan.peak_bytes = std::max(other_bytes_, plan.train.device().peak_bytes) + load_.context_bytes;
  plan.seconds = step_seconds(plan.train.program, update_.program, plan.step, rates_);
}

MicroBatchPlan MicroBatchPlans::with(const Recipe& recipe) {
  const MemorySection& asked = recipe.memory;
  const MemorySection& known = first_recipe_.memory;
  if (asked.recompute == known.recompute && asked.micro_batch_tokens == known.micro_batch_tokens) {
    return first_;
  }
  RunLimits batches = batches_of(recipe);
  if (built_.ops.empty() || built_limits_ != batches.train) {
    built_ = build_micro_batch(recipe, spec_, batches.train);
    built_limits_ = batches.train;
  }
  MicroBatchPlan plan;
  std::vector<Program> programs(1);
  programs.front() = finish_micro_batch(built_, recipe, spec_);
  plan.train = std::move(plan_phases(load_, std::move(programs), device_).front());
  plan.step = batches.step;
  complete(plan);
  return plan;
}

int64_t MicroBatchPlans::room_bytes() const {
  return load_.limit_bytes.value() - load_.context_bytes - persistent_bytes(layout_of(load_.phases.front()));
}

}  // namespace snug
