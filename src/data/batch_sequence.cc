// Which examples make up which optimizer step.
#include "data/batch_sequence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace snug {

namespace {

// Keeps the draws of shuffling apart from those of other users of the same seed.
constexpr uint64_t kShuffleStreams = uint64_t{0x73687566} << 32;

}  // namespace

std::vector<int64_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  Rng rng(seed, kShuffleStreams + static_cast<uint64_t>(epoch));
  for (size_t left = order.size(); left > 1; --left) {  // Fisher-Yates, from the end
    std::swap(order[left - 1], order[static_cast<size_t>(rng.below(left))]);
  }
  return order;
}

BatchSequence::BatchSequence(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset), options_(options) {
  SNUG_CHECK(dataset.size() > 0, "a dataset has at least one example");
  SNUG_CHECK(options.micro_batch_sequences > 0 && options.accumulation_steps > 0, "batches hold something");
  int64_t effective = options.micro_batch_sequences * options.accumulation_steps;
  steps_per_epoch_ = (dataset.size() + effective - 1) / effective;
  if (options.max_steps > 0) {
    total_steps_ = options.max_steps;
  } else {
    // 1.1 epochs of 10 steps are 11 steps, though the product is a little more in floating point.
    double steps = options.epochs * static_cast<double>(steps_per_epoch_);
    total_steps_ = static_cast<int64_t>(std::ceil(steps - 1e-9));
  }
}

void BatchSequence::seek(int64_t step) {
  SNUG_CHECK(step >= 0 && step <= total_steps_, "a step of this run");
  next_step_ = step;
}

std::vector<Batch> BatchSequence::next_step() {
  std::vector<Batch> batches;
  if (next_step_ >= total_steps_) {
    return batches;
  }
  int64_t epoch = next_step_ / steps_per_epoch_;
  if (epoch != order_epoch_) {
    order_ = epoch_order(dataset_.size(), options_.seed, epoch);
    if (!options_.shuffle) {
      std::iota(order_.begin(), order_.end(), int64_t{0});
    }
    order_epoch_ = epoch;
  }
  int64_t effective = options_.micro_batch_sequences * options_.accumulation_steps;
  int64_t begin = next_step_ % steps_per_epoch_ * effective;
  int64_t end = std::min(begin + effective, dataset_.size());
  while (begin < end) {
    int64_t count = std::min(options_.micro_batch_sequences, end - begin);
    batches.push_back(make_batch(
        dataset_, std::span(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count))));
    begin += count;
  }
  ++next_step_;
  return batches;
}

}  // namespace snug
