// What one micro-batch feeds to the program: sequences laid end to end, without padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace snug {

struct Batch {
  std::vector<int32_t> ids;        // (tokens)
  std::vector<int32_t> targets;    // (tokens), kNoTarget where nothing is learned
  std::vector<int32_t> positions;  // (tokens), from 0 in each sequence
  std::vector<int32_t> offsets;    // (sequences + 1), sequence s is [offsets[s], offsets[s + 1])
  // What an encoder reads, likewise; empty for a decoder-only model.
  std::vector<int32_t> source_ids = {};      // (source tokens)
  std::vector<int32_t> source_offsets = {};  // (sequences + 1)
  int64_t target_count = 0;

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  int64_t source_tokens() const { return static_cast<int64_t>(source_ids.size()); }
  int64_t sequences() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

Batch make_batch(const Dataset& dataset, std::span<const int64_t> examples);

}  // namespace snug
