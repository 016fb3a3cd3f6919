// Limits from the recipe alone.
#include "compile/batch_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "recipe/effective_batch.h"
#include "recipe/stages.h"

namespace snug {
namespace {

// Packs of shorter sequences than this on average are closed before they are full.
constexpr int64_t kShortestPackedTokens = 8;
// So are micro-batches of sequences that are not packed: each sequence that there is room for takes some
// scratch memory of attention's.
constexpr int64_t kShortestTokens = 32;

// How many sequences a batch of so many tokens has room for.
int64_t worthwhile_sequences(const BatchLimits& batch, const BatchLimits& longest) {
  int64_t most = std::max(batch.tokens, batch.source_tokens);
  int64_t one = std::max<int64_t>(std::max(longest.tokens, longest.source_tokens), 1);
  return std::max<int64_t>(most / std::min(one, kShortestTokens), 1);
}

int64_t decoder_length(const DataSection& data, bool has_encoder) {
  bool apart = has_encoder && data.max_target_length > 0;
  return apart ? data.max_target_length : data.max_length;
}

BatchLimits longest_sequence(const DataSection& data, bool has_encoder) {
  return {.sequences = 1,
          .tokens = decoder_length(data, has_encoder),
          .source_tokens = has_encoder ? data.max_length : 0};
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

int64_t micro_batch_tokens(const Recipe& recipe) {
  int64_t length = recipe.data.max_length;
  int64_t step = effective_batch(recipe.training) * length;
  if (recipe.memory.micro_batch_tokens) {
    return std::min(*recipe.memory.micro_batch_tokens, step);
  }
  std::optional<int64_t> sequences = recipe.training.per_device_train_batch_size;
  return std::min(sequences ? *sequences * length : std::max(kEnoughTokens, length), step);
}

BatchLimits micro_batch_limits(const Recipe& recipe, const BatchLimits& longest) {
  const DataSection& data = recipe.data;
  int64_t tokens = micro_batch_tokens(recipe);
  int64_t step = effective_batch(recipe.training);
  if (data.packing) {
    return times(longest, std::clamp<int64_t>(tokens / data.max_length, 1, step));
  }
  // Without an encoder max_target_length says nothing, and all tokens are one kind.
  bool has_sources = longest.source_tokens > 0;
  int64_t answer = decoder_length(data, has_sources);
  int64_t answers = tokens / data.max_length * answer +
                    (tokens % data.max_length * answer + data.max_length - 1) / data.max_length;
  BatchLimits limits{.sequences = step,
                     .tokens = std::max(longest.tokens, answers),
                     .source_tokens = has_sources ? std::max(longest.source_tokens, tokens) : 0};
  limits.sequences = std::min(step, worthwhile_sequences(limits, longest));
  return limits;
}

StepCut longest_step(const Recipe& recipe, const BatchLimits& longest, const BatchLimits& micro_batch) {
  // So many of the longest always fit, and a micro-batch is closed only where the next one does not.
  int64_t together = micro_batch.tokens / std::max<int64_t>(longest.tokens, 1);
  if (longest.source_tokens > 0) {
    together = std::min(together, micro_batch.source_tokens / longest.source_tokens);
  }
  together = std::max<int64_t>(together, 1);
  int64_t step = effective_batch(recipe.training);
  return {.most = (step + together - 1) / together,
          .expected = std::nullopt,
          .tokens = static_cast<double>(step * longest.tokens),
          .source_tokens = static_cast<double>(step * longest.source_tokens),
          .sequences = recipe.data.packing ? 0.0 : static_cast<double>(step)};
}

BatchLimits evaluation_limits(const BatchLimits& tokens, int64_t least_sequences) {
  BatchLimits limits = tokens;
  limits.sequences = std::max(least_sequences, worthwhile_sequences(tokens, tokens));
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
  RunLimits limits{.train = recipe.data.packing ? pack_limits(recipe, spec.has_encoder()) : least,
                   .step = {}};
  if (longest_evaluated(recipe, spec.has_encoder())) {
    limits.evaluate = least;
  }
  return limits;
}

RunLimits recipe_limits(const Recipe& recipe, const ModelSpec& spec) {
  BatchLimits longest = recipe.data.packing ? pack_limits(recipe, spec.has_encoder())
                                            : longest_sequence(recipe.data, spec.has_encoder());
  RunLimits limits{.train = micro_batch_limits(recipe, longest), .step = {}};
  limits.step = longest_step(recipe, longest, limits.train);
  if (std::optional<BatchLimits> evaluated = longest_evaluated(recipe, spec.has_encoder())) {
    int64_t sequences = recipe.training.per_device_eval_batch_size.value_or(1);
    limits.evaluate = evaluation_limits(times(*evaluated, sequences), sequences);
  }
  return limits;
}

}  // namespace snug
