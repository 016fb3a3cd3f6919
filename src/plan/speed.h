// What speed to expect of a plan: each op's arithmetic and bytes over the device's rates.
#pragma once

#include "plan/plan.h"

namespace snug {

struct SpeedEstimate {
  double tokens = 0;           // of a step, with every batch as long as planned
  double seconds = 0;          // of a step
  double ceiling_seconds = 0;  // of its products and attention alone, at the ceiling's rate

  bool known() const { return seconds > 0; }
  double tokens_per_second() const { return tokens / seconds; }
  double ceiling_tokens_per_second() const { return tokens / ceiling_seconds; }
  double share_of_ceiling() const { return ceiling_seconds / seconds; }
};

// Of a step whose micro-batches are all full: as many as it has at most. Not known if the rates are not.
SpeedEstimate estimate_speed(const Plan& plan, const DeviceRates& rates);

double op_seconds(const Program& program, const Op& op, const DeviceRates& rates);
// Of a batch as large as planned, where such a share of the tokens has a target.
double program_seconds(const Program& program, double learned, const DeviceRates& rates);

// How many micro-batches a step is expected to have, and their program's buffers without its ops, which may
// be smaller than planned.
double expected_micro_batches(const StepCut& step);
Program buffers_at_expected_size(const Program& program, const StepCut& step);

// What a step takes, with as many micro-batches as are expected and its tokens spread over them: to choose
// between plans of one experiment.
double step_seconds(const Plan& plan, const DeviceRates& rates);
double step_seconds(const Program& train, const Program& update, const StepCut& step,
                    const DeviceRates& rates);

}  // namespace snug
