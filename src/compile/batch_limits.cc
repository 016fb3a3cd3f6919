// Limits from the recipe alone.
#include "compile/batch_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

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

void require_positions(const Recipe& recipe, const ModelSpec& spec) {
  int64_t allowed = std::max(spec.max_positions, recipe.model.max_positions.value_or(0));
  if (recipe.data.max_length > allowed) {
    throw bad_input(
        fmt::format("data.max_length is {}, but {} was made for at most {} positions: lower it, or set "
                    "model.max_positions to {} to go beyond them all the same",
                    recipe.data.max_length, spec.source, spec.max_positions, recipe.data.max_length));
  }
}

std::string positions_warning(const Recipe& recipe, const ModelSpec& spec) {
  if (recipe.data.max_length <= spec.max_positions) {
    return "";
  }
  return fmt::format("sequences of {} tokens go beyond the {} positions that the model was made for",
                     recipe.data.max_length, spec.max_positions);
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
