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
  // The dataset must outlive the sequence. Throws bad_input for a run that is too long for anyone to wait
  // for.
  BatchSequence(const Dataset& dataset, const BatchOptions& options);
  BatchSequence(const BatchSequence&) = delete;  // nor moved: the thread that works ahead knows its address
  BatchSequence& operator=(const BatchSequence&) = delete;

  int64_t total_steps() const { return total_steps_; }
  // Of the first.
  int64_t steps_per_epoch() { return end_of_epoch(0); }
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

  struct EpochSteps {
    int64_t epoch = 0;
    int64_t first = 0;
    int64_t count = 0;
  };

  Step make_step(int64_t step);
  int64_t count_steps();
  EpochSteps epoch_of(int64_t step);
  int64_t end_of_epoch(int64_t epoch);

  const Dataset& dataset_;
  BatchOptions options_;
  int64_t steps_per_epoch_ = 0;      // 0 with packs: each epoch has a number of its own
  std::vector<int64_t> epoch_ends_;  // then, of each epoch that was packed so far: the step after its last
  int64_t total_steps_ = 0;
  int64_t next_step_ = 0;
  double epoch_ = 0;
  int64_t pieces_epoch_ = -1;  // the one that pieces_ are of
  EpochPieces pieces_;
  std::future<Step> prepared_;  // last: it is waited for before anything else goes
};

}  // namespace snug
