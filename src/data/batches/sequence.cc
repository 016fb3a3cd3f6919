// Steps from epochs.
#include "data/batches/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "data/batches/cut.h"
#include "recipe/effective_batch.h"

namespace snug {
namespace {

// As many as training.max_steps may name.
constexpr int64_t kMaxSteps = 1'000'000'000;
// Packing does some 300,000 examples a second.
constexpr double kMaxPackedExamples = 1e9;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

BatchSequence::BatchSequence(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset), options_(options) {
  SNUG_CHECK(dataset.size() > 0, "a dataset has at least one example");
  SNUG_CHECK(options.effective_batch > 0, "a step holds something");
  if (options.batching != Batching::packed) {
    steps_per_epoch_ = divide_up(examples_per_epoch(dataset), options.effective_batch);
  }
  total_steps_ = options.max_steps > 0 ? options.max_steps : count_steps();
}

int64_t BatchSequence::count_steps() {
  // Far above any run, and far below where numbers end: all that follows stays exact.
  double examples = options_.epochs * static_cast<double>(examples_per_epoch(dataset_));
  double effective = static_cast<double>(options_.effective_batch);
  if (examples / effective > kMaxSteps || options_.epochs > kMaxSteps) {
    throw bad_input(fmt::format(
        "training.num_train_epochs is {}: with {} examples an epoch that is more than {} steps. Lower it, or "
        "set training.max_steps",
        options_.epochs, format_count(examples_per_epoch(dataset_)), format_count(kMaxSteps)));
  }
  if (options_.batching == Batching::packed && examples > kMaxPackedExamples) {
    throw bad_input(fmt::format(
        "training.num_train_epochs is {}: with data.packing the steps are counted by packing every epoch, "
        "which takes too long for {:.3g} examples. Set training.max_steps",
        options_.epochs, examples));
  }
  auto whole = static_cast<int64_t>(std::floor(options_.epochs));
  int64_t steps = end_of_epoch(whole - 1);
  double fraction = options_.epochs - static_cast<double>(whole);
  return fraction > 0 ? steps + steps_of_epochs(fraction, end_of_epoch(whole) - steps) : steps;
}

// The step after the last of that epoch.
int64_t BatchSequence::end_of_epoch(int64_t epoch) {
  if (steps_per_epoch_ > 0) {
    return (epoch + 1) * steps_per_epoch_;
  }
  while (std::ssize(epoch_ends_) <= epoch) {  // only packing tells how many packs there are
    int64_t packs = make_epoch(dataset_, options_, std::ssize(epoch_ends_)).size();
    epoch_ends_.push_back((epoch_ends_.empty() ? 0 : epoch_ends_.back()) +
                          divide_up(packs, options_.effective_batch));
  }
  return epoch < 0 ? 0 : epoch_ends_[static_cast<size_t>(epoch)];
}

BatchSequence::EpochSteps BatchSequence::epoch_of(int64_t step) {
  int64_t epoch = 0;
  if (steps_per_epoch_ > 0) {
    epoch = step / steps_per_epoch_;
  } else {
    while (epoch_ends_.empty() || epoch_ends_.back() <= step) {
      end_of_epoch(std::ssize(epoch_ends_));
    }
    epoch = std::upper_bound(epoch_ends_.begin(), epoch_ends_.end(), step) - epoch_ends_.begin();
  }
  int64_t first = end_of_epoch(epoch - 1);
  return {epoch, first, end_of_epoch(epoch) - first};
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
  auto [epoch, first_step, steps] = epoch_of(step);
  if (epoch != pieces_epoch_) {
    pieces_ = make_epoch(dataset_, options_, epoch);
    pieces_epoch_ = epoch;
  }
  Step result;
  result.epoch =
      static_cast<double>(epoch) + static_cast<double>(step + 1 - first_step) / static_cast<double>(steps);
  int64_t begin = (step - first_step) * options_.effective_batch;
  int64_t end_of_step = std::min(begin + options_.effective_batch, pieces_.size());
  for (int64_t end : cut_pieces(dataset_, pieces_, begin, end_of_step, options_.micro_batch)) {
    result.batches.push_back(make_batch(dataset_, pieces_.pieces(begin, end)));
    begin = end;
  }
  return result;
}

}  // namespace snug
