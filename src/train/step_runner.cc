// Optimizer steps and evaluation: batches into the arena, programs run, and a few numbers out when they are
// asked for.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "compile/optimizer.h"
#include "compile/phases.h"
#include "data/batches/cut.h"
#include "data/batches/target_rows.h"
#include "program/names.h"
#include "program/step_clock.h"
#include "train/schedule.h"
#include "train/trainer.h"

namespace snug {
namespace {

Extents extents_of(const Batch& batch, const TargetRows& rows) {
  Extents extents{};
  extents[static_cast<size_t>(Extent::tokens)] = batch.tokens();
  extents[static_cast<size_t>(Extent::targets)] = rows.size();
  extents[static_cast<size_t>(Extent::source_tokens)] = batch.source_tokens();
  extents[static_cast<size_t>(Extent::sequences)] = batch.sequences();
  extents[static_cast<size_t>(Extent::offsets)] = batch.sequences() + 1;
  return extents;
}

int64_t targets_of(const std::vector<Batch>& micro_batches) {
  int64_t targets = 0;
  for (const Batch& batch : micro_batches) {
    targets += batch.target_count;
  }
  return std::max<int64_t>(targets, 1);
}

}  // namespace

bool StepResult::was_skipped() const {
  return !std::isfinite(gradient_norm);
}

StepRunner::StepRunner(Executor& executor, const TrainingSection& training)
    : executor_(executor), training_(training), scales_loss_(executor.has(kTrainPhase, kShare)) {}

float StepRunner::loss_scale() {
  StepClock clock;
  executor_.read(kUpdatePhase, kClock, std::as_writable_bytes(std::span(&clock, 1)));
  return clock.loss_scale(scales_loss_);
}

void StepRunner::run_micro_batch(std::string_view phase, const Batch& batch, float scale,
                                 Executor::Sums sums) {
  TargetRows rows = make_target_rows(batch.targets);
  executor_.write_values<int32_t>(phase, kIds, batch.ids);
  executor_.write_values<int32_t>(phase, kTargets, rows.targets);
  executor_.write_values<int32_t>(phase, kTargetRows, rows.tokens);
  executor_.write_values<int32_t>(phase, kOffsets, batch.offsets);
  if (executor_.has(phase, kPositions)) {
    executor_.write_values<int32_t>(phase, kPositions, batch.positions);
  }
  if (executor_.has(phase, kSourceIds)) {
    executor_.write_values<int32_t>(phase, kSourceIds, batch.source_ids);
    executor_.write_values<int32_t>(phase, kSourceOffsets, batch.source_offsets);
  }
  const char* scale_name = scales_loss_ && phase == kTrainPhase ? kShare : kScale;
  executor_.write_values<float>(phase, scale_name, std::span(&scale, 1));
  executor_.run(phase, extents_of(batch, rows), sums);
}

double StepRunner::loss_sum_and_reset() {
  double sum = 0;
  executor_.read(kTrainPhase, kLossSum, std::as_writable_bytes(std::span(&sum, 1)));
  const double zero = 0;
  executor_.write_values<double>(kTrainPhase, kLossSum, std::span(&zero, 1));
  return sum;
}

void StepRunner::go_on(int64_t steps, int64_t updates) {
  steps_ = steps;
  updates_ = updates;
}

bool StepRunner::enqueue_gradients(const std::vector<Batch>& micro_batches, int64_t step,
                                   const std::function<bool()>& should_stop) {
  // Dividing by the targets of the whole effective batch makes the split into micro-batches invisible.
  float scale = 1.0F / static_cast<float>(targets_of(micro_batches));
  int64_t first_token = 0;
  int64_t first_source_token = 0;
  auto seed_masks = [&](const char* name, int64_t first) {
    if (executor_.has(kTrainPhase, name)) {
      const std::array<int64_t, 3> random = {training_.seed, step, first};
      executor_.write_values<int64_t>(kTrainPhase, name, random);
    }
  };
  for (const Batch& batch : micro_batches) {
    if (should_stop && should_stop()) {
      return false;
    }
    seed_masks(kRandom, first_token);
    seed_masks(kSourceRandom, first_source_token);
    bool is_first = &batch == &micro_batches.front();
    run_micro_batch(kTrainPhase, batch, scale, is_first ? Executor::Sums::begin : Executor::Sums::go_on);
    first_token += batch.tokens();
    first_source_token += batch.source_tokens();
  }
  return true;
}

double StepRunner::accumulate_gradients(const std::vector<Batch>& micro_batches, int64_t step) {
  enqueue_gradients(micro_batches, step);
  return loss_sum_and_reset() / static_cast<double>(targets_of(micro_batches));
}

bool StepRunner::enqueue_step(const std::vector<Batch>& micro_batches, int64_t step, int64_t total_steps,
                              const std::function<bool()>& should_stop) {
  SNUG_CHECK(!history_full(), "the results of earlier steps were not taken");
  if (!enqueue_gradients(micro_batches, step, should_stop)) {
    return false;
  }
  std::array<double, kHistorySteps> rates{};
  for (int64_t update = updates_; update < updates_ + kHistorySteps; ++update) {
    rates[static_cast<size_t>(update % kHistorySteps)] = learning_rate(training_, update, total_steps);
  }
  executor_.write_values<double>(kUpdatePhase, kLearningRates, rates);
  if (executor_.has(kUpdatePhase, kRoundingRandom)) {
    const std::array<int64_t, 2> random = {training_.seed, step};
    executor_.write_values<int64_t>(kUpdatePhase, kRoundingRandom, random);
  }
  executor_.run(kUpdatePhase, {});
  pending_targets_.push_back(targets_of(micro_batches));
  ++steps_;
  return true;
}

std::vector<StepResult> StepRunner::take_results() {
  std::array<StepRecord, kHistorySteps> history;
  executor_.read(kUpdatePhase, kHistory, std::as_writable_bytes(std::span(history)));
  std::vector<StepResult> results;
  auto pending = static_cast<int64_t>(pending_targets_.size());
  for (int64_t i = 0; i < pending; ++i) {
    const StepRecord& record = history[static_cast<size_t>((steps_ - pending + i) % kHistorySteps)];
    results.push_back(
        {.loss = record.loss_sum / static_cast<double>(pending_targets_[static_cast<size_t>(i)]),
         .gradient_norm = record.gradient_norm,
         .learning_rate = record.learning_rate});
    updates_ += results.back().was_skipped() ? 0 : 1;
  }
  pending_targets_.clear();
  return results;
}

StepResult StepRunner::run_step(const std::vector<Batch>& micro_batches, int64_t step, int64_t total_steps) {
  enqueue_step(micro_batches, step, total_steps);
  return take_results().back();
}

EvaluationMetrics StepRunner::evaluate(const Dataset& dataset, const BatchLimits& most,
                                       const GoesOn& goes_on) {
  EpochPieces rows = make_epoch(dataset, {.shuffle = false}, 0);
  std::vector<int64_t> ends = cut_pieces(dataset, rows, 0, rows.size(), most);
  EvaluationMetrics metrics;
  double hits = 0;
  executor_.write_values<double>(kEvaluatePhase, kHits, std::span(&hits, 1));
  Backend& backend = executor_.backend();
  std::optional<uint64_t> mark_before;
  int64_t begin = 0;
  for (size_t i = 0; i < ends.size() && metrics.complete; ++i) {
    Batch batch = make_batch(dataset, rows.pieces(begin, ends[i]));
    begin = ends[i];
    run_micro_batch(kEvaluatePhase, batch, 1.0F);
    metrics.targets += batch.target_count;
    // One batch ahead of the device and no more, so that what is said to be done is.
    if (mark_before) {
      backend.wait_for(*mark_before);
    }
    mark_before = backend.mark();
    metrics.complete = !goes_on || goes_on(static_cast<int64_t>(i) + 1, std::ssize(ends));
  }
  metrics.loss = loss_sum_and_reset() / static_cast<double>(std::max<int64_t>(metrics.targets, 1));
  executor_.read(kEvaluatePhase, kHits, std::as_writable_bytes(std::span(&hits, 1)));
  metrics.hits = static_cast<int64_t>(hits);
  return metrics;
}

}  // namespace snug
