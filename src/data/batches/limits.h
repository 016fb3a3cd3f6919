// The largest batches that given data can produce, in whatever order it comes: often far smaller than what
// the recipe allows, and known before training.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compile/batch_limits.h"
#include "data/batches/epoch.h"
#include "data/dataset.h"

namespace snug {

// How a recipe makes steps of the data that it trains on, cut into micro-batches that are no larger than
// `micro_batch`.
BatchOptions training_batches(const Recipe& recipe, const Dataset& dataset,
                              const BatchLimits& micro_batch = kUnlimited);

// Works for recipes that differ in what fits a run into memory; an evaluation's batches, if the recipe that
// it was made for left them open, may have up to kMostEvaluationSequences of the longest sequences.
class DataLimits {
 public:
  // Nothing to evaluate with: no `eval_data`.
  DataLimits(const Recipe& recipe, const Dataset& train_data, const std::vector<const Dataset*>& eval_data);

  RunLimits operator()(const Recipe& recipe) const;

 private:
  // Sums of the longest examples: [n] is the most that n of them can have together.
  struct LongestSums {
    std::vector<int64_t> tokens;
    std::vector<int64_t> source_tokens;
  };
  static LongestSums longest_sums(const Dataset& dataset, int64_t max_sequences);
  static void raise_to(LongestSums& sums, const LongestSums& other);
  static BatchLimits limits_of(const LongestSums& sums, int64_t sequences);

  LongestSums train_;
  std::optional<LongestSums> evaluate_;
  bool has_sources_ = false;
  double learned_ = 1;                                 // the share of the tokens that are targets
  std::vector<std::vector<BatchLimits>> first_steps_;  // their sequences; empty with packs
};

}  // namespace snug
