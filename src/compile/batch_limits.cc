// Limits from the recipe alone.
#include "compile/batch_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "recipe/stages.h"

namespace snug {
namespace {

// Packs of shorter sequences than this on average are closed before they are full.
constexpr int64_t kShortestPackedTokens = 8;

int64_t decoder_length(const DataSection& data, bool has_encoder) {
  bool apart = has_encoder && data.max_target_length > 0;
  return apart ? data.max_target_length : data.max_length;
}

BatchLimits longest_sequence(const DataSection& data, bool has_encoder) {
  return {.sequences = 1, .tokens = decoder_length(data, has_encoder), .source_tokens = data.max_length};
}

// Of the recipe's own data and of that of stages before it.
std::optional<BatchLimits> longest_evaluated(const Recipe& recipe, bool has_encoder) {
  std::vector<DataSection> all;
  if (evaluates(recipe.data)) {
    all.push_back(recipe.data);
  }
  for (const EarlierStage& stage : recipe.stage.earlier) {
    all.push_back(stage.data);
  }
  if (all.empty()) {
    return std::nullopt;
  }
  BatchLimits longest;
  for (const DataSection& data : all) {
    BatchLimits one = longest_sequence(data, has_encoder);
    longest = {.sequences = 1,
               .tokens = std::max(longest.tokens, one.tokens),
               .source_tokens = std::max(longest.source_tokens, one.source_tokens)};
  }
  return longest;
}

}  // namespace

int64_t decoder_length(const Recipe& recipe, bool has_encoder) {
  return decoder_length(recipe.data, has_encoder);
}

BatchLimits pack_limits(const Recipe& recipe, bool has_encoder) {
  BatchLimits limits = longest_sequence(recipe.data, has_encoder);
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
  if (longest_evaluated(recipe, spec.has_encoder())) {
    limits.evaluate = least;
  }
  return limits;
}

RunLimits recipe_limits(const Recipe& recipe, const ModelSpec& spec) {
  BatchLimits one = longest_sequence(recipe.data, spec.has_encoder());
  BatchLimits trained = recipe.data.packing ? pack_limits(recipe, spec.has_encoder()) : one;
  RunLimits limits{times(trained, recipe.training.per_device_train_batch_size), std::nullopt};
  if (std::optional<BatchLimits> longest = longest_evaluated(recipe, spec.has_encoder())) {
    limits.evaluate = times(*longest, recipe.training.per_device_eval_batch_size.value_or(1));
  }
  return limits;
}

}  // namespace snug
