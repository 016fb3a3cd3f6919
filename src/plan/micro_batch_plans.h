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
  // All but the recipe and the rates must outlive it.
  MicroBatchPlans(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits,
                  const DeviceRates& rates);

  // Of a recipe that differs from that one in memory.recompute and memory.micro_batch_tokens alone: train,
  // steps and peak are those of plan_training(recipe).
  MicroBatchPlan with(const Recipe& recipe);

  RunLimits batches_of(const Recipe& recipe) const;

  // What the limit leaves for what does not persist.
  int64_t room_bytes() const;
  // Whether there is any; where there is none, no micro-batch makes the run fit.
  bool has_room() const { return !load_.limit_bytes || room_bytes() > 0; }

 private:
  void complete(MicroBatchPlan& plan) const;  // peak and seconds, where train and step are there

  const ModelSpec& spec_;
  const Device& device_;
  const LimitsOf& limits_;
  DeviceRates rates_;
  Plan load_;  // that phase alone: it has all that persists
  PhasePlan update_;
  int64_t other_bytes_ = 0;  // the peak of all phases but train
  Recipe first_recipe_;      // that it was made with
  MicroBatchPlan first_;
  // Of the last plan: what policies of recomputation have in common.
  BatchLimits built_limits_;
  Program built_;
};

}  // namespace snug
