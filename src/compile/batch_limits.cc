// Limits from the recipe alone.
#include "compile/batch_limits.h"

#include <algorithm>

namespace snug {
namespace {

// Packs of shorter sequences than this on average are closed before they are full.
constexpr int64_t kShortestPackedTokens = 16;

BatchLimits full_batches(const Recipe& recipe, const ModelSpec& spec, int64_t sequences) {
  return {.sequences = sequences,
          .tokens = sequences * decoder_length(recipe, spec.has_encoder()),
          .source_tokens = sequences * recipe.data.max_length};
}

}  // namespace

int64_t decoder_length(const Recipe& recipe, bool has_encoder) {
  bool apart = has_encoder && recipe.data.max_target_length > 0;
  return apart ? recipe.data.max_target_length : recipe.data.max_length;
}

int64_t packed_sequences(const Recipe& recipe, bool has_encoder) {
  int64_t sequences = recipe.training.per_device_train_batch_size;
  return std::max(sequences, sequences * decoder_length(recipe, has_encoder) / kShortestPackedTokens);
}

RunLimits smallest_limits(const Recipe& recipe, const ModelSpec& spec) {
  BatchLimits least{.sequences = 1, .tokens = 2, .source_tokens = 1};
  return {recipe.data.packing ? recipe_limits(recipe, spec).train : least, least};
}

RunLimits recipe_limits(const Recipe& recipe, const ModelSpec& spec) {
  RunLimits limits{full_batches(recipe, spec, recipe.training.per_device_train_batch_size),
                   full_batches(recipe, spec, recipe.training.per_device_eval_batch_size)};
  if (recipe.data.packing) {
    limits.train.sequences = packed_sequences(recipe, spec.has_encoder());
  }
  return limits;
}

}  // namespace snug
