// The optimizer steps of a run, one after the other.
#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "data/batches/batch.h"
#include "data/batches/epoch.h"
#include "data/dataset.h"

namespace snug {

class BatchSequence {
 public:
  // The dataset must outlive the sequence.
  BatchSequence(const Dataset& dataset, const BatchOptions& options);
  BatchSequence(const BatchSequence&) = delete;  // nor moved: the thread that works ahead knows its address
  BatchSequence& operator=(const BatchSequence&) = delete;

  int64_t total_steps() const { return total_steps_; }
  int64_t next_step_index() const { return next_step_; }
  // How far through the data the step is that next_step() gave last: 1.5 in the middle of the second epoch.
  double epoch() const { return epoch_; }

  // All micro-batches of the next optimizer step, so that the loss can be divided by the targets of all of
  // them; empty after the last step. While the caller works on them, the step after is made.
  std::vector<Batch> next_step();
  // Continues before step `step`: where a run is taken up again.
  void seek(int64_t step);

 private:
  struct Step {
    std::vector<Batch> batches;
    double epoch = 0;  // after it
  };

  Step make_step(int64_t step);
  int64_t steps_in_epoch(int64_t epoch);
  int64_t steps_of(const EpochBatches& epoch) const;

  const Dataset& dataset_;
  BatchOptions options_;
  std::vector<int64_t> epoch_ends_;  // step after the last, of each epoch that is known
  int64_t total_steps_ = 0;
  int64_t next_step_ = 0;
  double epoch_ = 0;
  int64_t batches_epoch_ = -1;  // the one that batches_ are of
  EpochBatches batches_;
  std::future<Step> prepared_;  // last: it is waited for before anything else goes
};

}  // namespace snug
