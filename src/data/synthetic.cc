// Random tokens.
#include "data/synthetic.h"

#include "base/rng.h"
#include "data/example.h"

namespace snug {

Batch random_batch(const SyntheticShape& shape, uint64_t seed) {
  Rng rng(seed);
  Dataset dataset;
  std::vector<int64_t> all;
  auto random_ids = [&](int64_t count) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(shape.vocabulary))));
    }
    return ids;
  };
  for (int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    std::vector<int32_t> ids = random_ids(shape.length_tokens);
    if (shape.source_tokens > 0) {
      dataset.add(make_pair_example(random_ids(shape.source_tokens), std::move(ids), 0));
    } else {
      dataset.add(make_example(std::move(ids), 0));
    }
    all.push_back(sequence);
  }
  return make_batch(dataset, all);
}

}  // namespace snug
