// Steps from epochs.
#include "data/batches/sequence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace snug {

BatchSequence::BatchSequence(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset), options_(options) {
  SNUG_CHECK(dataset.size() > 0, "a dataset has at least one example");
  SNUG_CHECK(options.micro_batch_sequences > 0 && options.accumulation_steps > 0, "batches hold something");
  if (options.max_steps > 0) {
    total_steps_ = options.max_steps;
    return;
  }
  auto whole = static_cast<int64_t>(std::floor(options.epochs));
  for (int64_t epoch = 0; epoch < whole; ++epoch) {
    total_steps_ += steps_in_epoch(epoch);
  }
  double fraction = options.epochs - static_cast<double>(whole);
  if (fraction > 0) {
    // 1.1 epochs of 10 steps are 11 steps, though the product is a little more in floating point.
    total_steps_ +=
        static_cast<int64_t>(std::ceil(fraction * static_cast<double>(steps_in_epoch(whole)) - 1e-9));
  }
}

int64_t BatchSequence::steps_of(const EpochBatches& epoch) const {
  return (epoch.size() + options_.accumulation_steps - 1) / options_.accumulation_steps;
}

int64_t BatchSequence::steps_in_epoch(int64_t epoch) {
  SNUG_CHECK(epoch <= std::ssize(epoch_ends_), "epochs are counted in order");
  if (epoch == std::ssize(epoch_ends_)) {
    int64_t steps = 0;
    if (options_.batching == Batching::packed) {  // only packing tells how many packs there are
      steps = steps_of(make_epoch(dataset_, options_, epoch));
    } else {
      int64_t effective = options_.micro_batch_sequences * options_.accumulation_steps;
      steps = (examples_per_epoch(dataset_) + effective - 1) / effective;
    }
    epoch_ends_.push_back((epoch_ends_.empty() ? 0 : epoch_ends_.back()) + steps);
  }
  auto index = static_cast<size_t>(epoch);
  return epoch_ends_[index] - (index == 0 ? 0 : epoch_ends_[index - 1]);
}

void BatchSequence::seek(int64_t step) {
  SNUG_CHECK(step >= 0 && step <= total_steps_, "a step of this run");
  if (prepared_.valid()) {
    prepared_.get();
  }
  next_step_ = step;
}

std::vector<Batch> BatchSequence::next_step() {
  if (next_step_ >= total_steps_) {
    return {};
  }
  Step step = prepared_.valid() ? prepared_.get() : make_step(next_step_);
  if (++next_step_ < total_steps_) {
    prepared_ = std::async(std::launch::async, [this, index = next_step_] { return make_step(index); });
  }
  epoch_ = step.epoch;
  return std::move(step.batches);
}

BatchSequence::Step BatchSequence::make_step(int64_t step) {
  int64_t epoch = 0;
  int64_t first_step = 0;
  int64_t steps = steps_in_epoch(0);
  for (; step >= first_step + steps; steps = steps_in_epoch(epoch)) {
    first_step += steps;
    ++epoch;
  }
  if (epoch != batches_epoch_) {
    batches_ = make_epoch(dataset_, options_, epoch);
    batches_epoch_ = epoch;
  }
  Step result;
  result.epoch =
      static_cast<double>(epoch) + static_cast<double>(step + 1 - first_step) / static_cast<double>(steps);
  int64_t begin = (step - first_step) * options_.accumulation_steps;
  int64_t end = std::min(begin + options_.accumulation_steps, batches_.size());
  for (int64_t index = begin; index < end; ++index) {
    result.batches.push_back(make_batch(dataset_, batches_.batch(index)));
  }
  return result;
}

}  // namespace snug
