// What one micro-batch feeds to the program: sequences laid end to end, without padding.
#include "data/batch.h"

#include <algorithm>

namespace snug {

Batch make_batch(const Dataset& dataset, std::span<const int64_t> examples) {
  Batch batch;
  batch.offsets.push_back(0);
  if (dataset.has_sources()) {
    batch.source_offsets.push_back(0);
  }
  for (int64_t example : examples) {
    std::span<const int32_t> ids = dataset.ids(example);
    std::span<const int32_t> targets = dataset.targets(example);
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.targets.insert(batch.targets.end(), targets.begin(), targets.end());
    for (size_t i = 0; i < ids.size(); ++i) {
      batch.positions.push_back(static_cast<int32_t>(i));
    }
    batch.offsets.push_back(static_cast<int32_t>(batch.ids.size()));
    if (dataset.has_sources()) {
      std::span<const int32_t> source = dataset.source(example);
      batch.source_ids.insert(batch.source_ids.end(), source.begin(), source.end());
      batch.source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));
    }
  }
  batch.target_count = batch.tokens() - std::count(batch.targets.begin(), batch.targets.end(), kNoTarget);
  return batch;
}

}  // namespace snug
