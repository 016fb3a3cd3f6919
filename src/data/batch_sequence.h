// Which examples make up which optimizer step. The order depends on the seed and on nothing else: the same on
// every machine, and the same however a step is split into micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"

namespace snug {

struct BatchOptions {
  int64_t micro_batch_sequences = 1;  // sequences that go through the model together
  int64_t accumulation_steps = 1;     // micro-batches an optimizer step
  double epochs = 1;                  // may be a fraction
  int64_t max_steps = -1;             // more than 0 overrules `epochs`
  uint64_t seed = 0;
  bool shuffle = true;  // false: the file's order, for evaluation
};

// A permutation of 0..count-1, its own for each epoch.
std::vector<int64_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch);

class BatchSequence {
 public:
  // The dataset must outlive the sequence.
  BatchSequence(const Dataset& dataset, const BatchOptions& options);

  int64_t steps_per_epoch() const { return steps_per_epoch_; }  // the last step may be smaller
  int64_t total_steps() const { return total_steps_; }
  int64_t next_step_index() const { return next_step_; }
  double epoch_after(int64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(steps_per_epoch_);
  }

  // All micro-batches of the next optimizer step, so that the loss can be divided by the targets of all of
  // them; empty after the last step.
  std::vector<Batch> next_step();
  // Continues before step `step`: where a run is taken up again.
  void seek(int64_t step);

  // The most tokens that a micro-batch can hold, whatever the order: the sum of the longest examples.
  int64_t longest_batch_tokens() const { return dataset_.longest_sum_tokens(options_.micro_batch_sequences); }

 private:
  const Dataset& dataset_;
  BatchOptions options_;
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  int64_t next_step_ = 0;
  int64_t order_epoch_ = -1;  // the epoch that order_ belongs to
  std::vector<int64_t> order_;
};

}  // namespace snug
