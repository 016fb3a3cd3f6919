// Limits from the recipe alone.
#include "compile/batch_limits.h"

#include <algorithm>

namespace snug {
namespace {

// Packs of shorter sequences than this on average are closed before they are full.
constexpr int64_t kShortestPackedTokens = 8;

BatchLimits longest_sequence(const Recipe& recipe, bool has_encoder) {
  return {
      .sequences = 1, .tokens = decoder_length(recipe, has_encoder), .source_tokens = recipe.data.max_length};
}

bool evaluates(const DataSection& data) {
  return !data.eval_file.empty() || data.eval_split > 0;
}

}  // namespace

int64_t decoder_length(const Recipe& recipe, bool has_encoder) {
  bool apart = has_encoder && recipe.data.max_target_length > 0;
  return apart ? recipe.data.max_target_length : recipe.data.max_length;
}

BatchLimits pack_limits(const Recipe& recipe, bool has_encoder) {
  BatchLimits limits = longest_sequence(recipe, has_encoder);
  // Behind an encoder answers are often a word or two: what it reads counts as well.
  int64_t tokens = has_encoder ? std::max(limits.tokens, limits.source_tokens) : limits.tokens;
  limits.sequences = std::max<int64_t>(1, tokens / kShortestPackedTokens);
  return limits;
}

BatchLimits times(const BatchLimits& limits, int64_t count) {
  return {.sequences = limits.sequences * count,
          .tokens = limits.tokens * count,
          .source_tokens = limits.source_tokens * count};
}

RunLimits smallest_limits(const Recipe& recipe, const ModelSpec& spec) {
  BatchLimits least{.sequences = 1, .tokens = 2, .source_tokens = 1};
  RunLimits limits{recipe.data.packing ? recipe_limits(recipe, spec).train : least, std::nullopt};
  if (evaluates(recipe.data)) {
    limits.evaluate = least;
  }
  return limits;
}

RunLimits recipe_limits(const Recipe& recipe, const ModelSpec& spec) {
  BatchLimits one = longest_sequence(recipe, spec.has_encoder());
  BatchLimits trained = recipe.data.packing ? pack_limits(recipe, spec.has_encoder()) : one;
  RunLimits limits{times(trained, recipe.training.per_device_train_batch_size), std::nullopt};
  if (evaluates(recipe.data)) {
    limits.evaluate = times(one, recipe.training.per_device_eval_batch_size.value_or(1));
  }
  return limits;
}

}  // namespace snug
