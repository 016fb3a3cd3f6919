// Batches of random tokens, for benchmarks and trials at any size.
#pragma once

#include <cstdint>

#include "data/batches/batch.h"

namespace snug {

struct SyntheticShape {
  int64_t sequences = 1;
  int64_t length_tokens = 1;  // of each sequence
  int64_t vocabulary = 2;
  int64_t source_tokens = 0;  // of each sequence, for an encoder
};

// Every position predicts the next token; the last of a sequence has no target. With a source, as many tokens
// are read by the encoder, and the decoder learns all of its own.
// One sequence of it.
Example random_example(const SyntheticShape& shape, uint64_t seed);
Batch random_batch(const SyntheticShape& shape, uint64_t seed);

}  // namespace snug
