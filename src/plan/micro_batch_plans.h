// Plans of one run that differ in its micro-batches alone, to choose between: the phases that they share are
// made once.
#pragma once

#include <cstdint>
#include <optional>

#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

struct MicroBatchPlan {
  PhasePlan train;
  StepCut step;
  int64_t peak_bytes = 0;  // of the run
  double seconds = 0;      // of a step, expected
};

class MicroBatchPlans {
 public:
  // All must outlive it.
  MicroBatchPlans(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits);

  // Of a recipe that differs from that one in memory.recompute and memory.micro_batch_tokens alone: train,
  // steps and peak are those of plan_training(recipe).
  MicroBatchPlan with(const Recipe& recipe, const DeviceRates& rates);

  // What the limit leaves for what does not persist.
  int64_t room_bytes() const;
  // Whether there is any; where there is none, no micro-batch makes the run fit.
  bool has_room() const { return !load_.limit_bytes || room_bytes() > 0; }

 private:
  const ModelSpec& spec_;
  const Device& device_;
  const LimitsOf& limits_;
  Plan load_;  // that phase alone: it has all that persists
  PhasePlan update_;
  int64_t other_bytes_ = 0;  // the peak of all phases but train
  // Of the last plan: what policies of recomputation have in common.
  BatchLimits built_limits_;
  Program built_;
};

}  // namespace snug
