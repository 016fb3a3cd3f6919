// One optimizer step, and evaluation: batches into the arena, programs run, two numbers out.
#include <algorithm>
#include <array>
#include <cmath>

#include "compile/phases.h"
#include "train/schedule.h"
#include "train/trainer.h"

namespace snug {
namespace {

Extents extents_of(const Batch& batch) {
  Extents extents{};
  extents[static_cast<size_t>(Extent::tokens)] = batch.tokens();
  extents[static_cast<size_t>(Extent::source_tokens)] = batch.source_tokens();
  extents[static_cast<size_t>(Extent::sequences)] = batch.sequences();
  extents[static_cast<size_t>(Extent::offsets)] = batch.sequences() + 1;
  return extents;
}

bool computes_in_fp16(const Plan& plan) {
  const std::vector<Buffer>& buffers = plan.phase(kTrainPhase).program.buffers;
  return std::any_of(buffers.begin(), buffers.end(), [](const Buffer& b) { return b.dtype == DType::f16; });
}

}  // namespace

StepRunner::StepRunner(Executor& executor, const TrainingSection& training)
    : executor_(executor), training_(training), loss_scale_(computes_in_fp16(executor.plan())) {}

void StepRunner::run_micro_batch(std::string_view phase, const Batch& batch, float scale) {
  executor_.write_values<int32_t>(phase, "ids", batch.ids);
  executor_.write_values<int32_t>(phase, "targets", batch.targets);
  executor_.write_values<int32_t>(phase, "offsets", batch.offsets);
  if (executor_.has(phase, "positions")) {
    executor_.write_values<int32_t>(phase, "positions", batch.positions);
  }
  if (executor_.has(phase, "source_ids")) {
    executor_.write_values<int32_t>(phase, "source_ids", batch.source_ids);
    executor_.write_values<int32_t>(phase, "source_offsets", batch.source_offsets);
  }
  executor_.write_values<float>(phase, "scale", std::span(&scale, 1));
  executor_.run(phase, extents_of(batch));
}

double StepRunner::loss_sum_and_reset() {
  double sum = 0;
  executor_.read(kTrainPhase, "metrics.loss_sum", std::as_writable_bytes(std::span(&sum, 1)));
  const double zero = 0;
  executor_.write_values<double>(kTrainPhase, "metrics.loss_sum", std::span(&zero, 1));
  return sum;
}

double StepRunner::accumulate_gradients(const std::vector<Batch>& micro_batches, int64_t step) {
  int64_t targets = 0;
  for (const Batch& batch : micro_batches) {
    targets += batch.target_count;
  }
  // Dividing by the targets of the whole effective batch makes the split into micro-batches invisible.
  float scale = loss_scale_.value() / static_cast<float>(std::max<int64_t>(targets, 1));
  int64_t first_token = 0;
  int64_t first_source_token = 0;
  auto seed_masks = [&](const char* name, int64_t first) {
    if (executor_.has(kTrainPhase, name)) {
      const std::array<int64_t, 3> random = {training_.seed, step, first};
      executor_.write_values<int64_t>(kTrainPhase, name, random);
    }
  };
  for (const Batch& batch : micro_batches) {
    seed_masks("random", first_token);
    seed_masks("source_random", first_source_token);
    run_micro_batch(kTrainPhase, batch, scale);
    first_token += batch.tokens();
    first_source_token += batch.source_tokens();
  }
  return loss_sum_and_reset() / static_cast<double>(std::max<int64_t>(targets, 1));
}

StepResult StepRunner::run_step(const std::vector<Batch>& micro_batches, int64_t step, int64_t total_steps) {
  StepResult result;
  result.loss = accumulate_gradients(micro_batches, step);
  auto updates = static_cast<double>(step + 1 - skipped_updates_);
  const std::array<float, 4> scalars = {
      static_cast<float>(learning_rate(training_, step, total_steps)),
      static_cast<float>(1.0 - std::pow(training_.adam_beta1, updates)),
      static_cast<float>(1.0 - std::pow(training_.adam_beta2, updates)),
      1.0F / loss_scale_.value(),
  };
  executor_.write_values<float>(kUpdatePhase, "scalars", scalars);
  executor_.run(kUpdatePhase, {});
  float norm = 0;
  executor_.read(kUpdatePhase, "metrics.gradient_norm", std::as_writable_bytes(std::span(&norm, 1)));
  result.gradient_norm = norm / loss_scale_.value();
  skipped_updates_ += std::isfinite(norm) ? 0 : 1;
  loss_scale_.after_step(std::isfinite(norm));
  return result;
}

EvaluationMetrics StepRunner::evaluate(const Dataset& dataset, const BatchOptions& options) {
  BatchSequence batches(dataset, options);
  EvaluationMetrics metrics;
  for (std::vector<Batch> step = batches.next_step(); !step.empty(); step = batches.next_step()) {
    run_micro_batch(kEvaluatePhase, step.front(), 1.0F);
    metrics.targets += step.front().target_count;
  }
  metrics.loss = loss_sum_and_reset() / static_cast<double>(std::max<int64_t>(metrics.targets, 1));
  return metrics;
}

}  // namespace snug
