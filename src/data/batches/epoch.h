// In which order the examples of an epoch are learned. Depends on the data, the seed and the epoch, and on
// nothing else: the same on every machine, and however a step is cut into micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compile/batch_limits.h"
#include "data/dataset.h"

namespace snug {

enum class Batching {
  sequences,  // so many sequences a step, as they come
  grouped,    // the same, of sequences that are about as long as each other
  packed,     // so many packs a step, each filled with sequences up to a number of tokens
};

struct BatchOptions {
  int64_t effective_batch = 1;           // sequences, or packs, an optimizer step
  BatchLimits micro_batch = kUnlimited;  // the most that goes through the model together
  double epochs = 1;                     // may be a fraction
  int64_t max_steps = -1;                // more than 0 overrules `epochs`
  uint64_t seed = 0;
  bool shuffle = true;  // false: the file's order
  Batching batching = Batching::sequences;
  int64_t packed_tokens = 0;         // of a pack
  int64_t packed_source_tokens = 0;  // with an encoder: of what it reads
  int64_t packed_sequences = 0;      // the most that a pack holds
};

// An epoch in pieces that are never divided: sequences, or packs of them.
struct EpochPieces {
  std::vector<int64_t> examples;
  std::vector<int64_t> begins = {0};  // piece p is examples[begins[p]] up to examples[begins[p + 1]]

  int64_t size() const { return static_cast<int64_t>(begins.size()) - 1; }
  // The examples of the pieces from `first` up to `end`.
  std::span<const int64_t> pieces(int64_t first, int64_t end) const;
};

// A permutation of 0..count-1, its own for each epoch.
std::vector<int64_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch);

// An epoch has the examples of each part as often as its weight says: those of weight 2 twice, of weight 0.5
// a half of them, another half in another epoch.
int64_t examples_per_epoch(const Dataset& dataset);

EpochPieces make_epoch(const Dataset& dataset, const BatchOptions& options, int64_t epoch);

}  // namespace snug
