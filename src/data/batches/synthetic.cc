// Random tokens.
#include "data/batches/synthetic.h"

#include <numeric>

#include "base/rng.h"

namespace snug {
namespace {

Example draw_example(const SyntheticShape& shape, Rng& rng) {
  auto random_ids = [&](int64_t count) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(shape.vocabulary))));
    }
    return ids;
  };
  std::vector<int32_t> ids = random_ids(shape.length_tokens);
  return shape.source_tokens > 0 ? make_pair_example(random_ids(shape.source_tokens), ids)
                                 : make_example(ids, 0);
}

}  // namespace

Example random_example(const SyntheticShape& shape, uint64_t seed) {
  Rng rng(seed);
  return draw_example(shape, rng);
}

Batch random_batch(const SyntheticShape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<Example> examples;
  for (int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    examples.push_back(draw_example(shape, rng));
  }
  std::vector<int64_t> all(examples.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return make_batch(make_dataset(examples), all);
}

}  // namespace snug
