// Which examples go through the model together in one epoch. Depends on the data, the seed and the epoch, and
// on nothing else: the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace snug {

enum class Batching {
  sequences,  // so many sequences a micro-batch, as they come
  grouped,    // the same, of sequences that are about as long as each other
  packed,     // so many packs a micro-batch, each filled with sequences up to a number of tokens
};

struct BatchOptions {
  int64_t micro_batch_sequences = 1;  // sequences, or packs, that go through the model together
  int64_t accumulation_steps = 1;     // micro-batches an optimizer step
  double epochs = 1;                  // may be a fraction
  int64_t max_steps = -1;             // more than 0 overrules `epochs`
  uint64_t seed = 0;
  bool shuffle = true;  // false: the file's order, for evaluation
  Batching batching = Batching::sequences;
  int64_t packed_tokens = 0;         // of a pack
  int64_t packed_source_tokens = 0;  // with an encoder: of what it reads
  int64_t packed_sequences = 0;      // the most that a pack holds
};

struct EpochBatches {
  std::vector<int64_t> examples;
  std::vector<int64_t> begins = {0};  // micro-batch m is examples[begins[m]] up to examples[begins[m + 1]]

  int64_t size() const { return static_cast<int64_t>(begins.size()) - 1; }
  std::span<const int64_t> batch(int64_t index) const;
};

// A permutation of 0..count-1, its own for each epoch.
std::vector<int64_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch);

// An epoch has the examples of each part as often as its weight says: those of weight 2 twice, of weight 0.5
// a half of them, another half in another epoch.
int64_t examples_per_epoch(const Dataset& dataset);

// The packs of an epoch, each as if it were a micro-batch of its own. They and their order are the same
// however a step is split into micro-batches.
EpochBatches make_packs(const Dataset& dataset, const BatchOptions& options, int64_t epoch);

EpochBatches make_epoch(const Dataset& dataset, const BatchOptions& options, int64_t epoch);

}  // namespace snug
