// Making a full batch, and running it.
#include "doctor/dry_step.h"

#include <algorithm>
#include <chrono>

#include "compile/batch_limits.h"
#include "data/batches/synthetic.h"
#include "plan/training.h"
#include "program/names.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {
namespace {

// What a processor of a few cores does in some seconds; forward and backward are 6 operations a parameter.
constexpr double kFewOperations = 3e11;
constexpr double kOperationsOfParameter = 6;
constexpr int64_t kLittleMemory = int64_t{1} << 30;

}  // namespace

Batch full_batch(const Plan& plan, const Recipe& recipe, const ModelSpec& spec) {
  BatchLimits room = planned_batch(plan, kTrainPhase);
  int64_t longest = decoder_length(recipe, spec.has_encoder());
  int64_t sequences = (room.tokens + longest - 1) / longest;
  if (room.source_tokens > 0) {
    int64_t longest_source = recipe.data.max_length;
    sequences = std::max(sequences, (room.source_tokens + longest_source - 1) / longest_source);
  }
  sequences = std::clamp<int64_t>(sequences, 1, room.sequences);
  return random_batch({.sequences = sequences,
                       .length_tokens = room.tokens / sequences,
                       .vocabulary = spec.vocabulary,
                       .source_tokens = room.source_tokens / sequences},
                      0);
}

DryStep take_dry_step(const Plan& plan, const Recipe& recipe, const ModelSpec& spec, Backend& backend) {
  Executor executor(plan, backend);
  load_constants(executor);
  StepRunner runner(executor, recipe.training);
  std::vector<Batch> step = {full_batch(plan, recipe, spec)};
  DryStep done{.tokens = step.front().tokens() + step.front().source_tokens()};
  constexpr int64_t kSteps = 2;  // the first one warms up
  for (int64_t i = 0; i < kSteps; ++i) {
    auto start = std::chrono::steady_clock::now();
    runner.run_step(step, i, kSteps);
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  done.allocated_bytes = executor.allocated_bytes();
  return done;
}

bool is_small(const Plan& plan) {
  BatchLimits room = planned_batch(plan, kTrainPhase);
  double operations = kOperationsOfParameter * static_cast<double>(plan.parameters) *
                      static_cast<double>(room.tokens + room.source_tokens);
  return operations <= kFewOperations && plan.peak_bytes() <= kLittleMemory;
}

}  // namespace snug
