// The largest batches that a run can meet: what its programs are planned for.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

struct BatchLimits {
  int64_t sequences = 0;
  int64_t tokens = 0;         // of all sequences together; behind an encoder, of the answers
  int64_t source_tokens = 0;  // that an encoder reads

  bool operator==(const BatchLimits&) const = default;
};

inline constexpr BatchLimits kUnlimited = {.sequences = std::numeric_limits<int64_t>::max(),
                                           .tokens = std::numeric_limits<int64_t>::max(),
                                           .source_tokens = std::numeric_limits<int64_t>::max()};

// How many micro-batches a step is cut into.
struct StepCut {
  int64_t most = 1;                // whatever the lengths are
  std::optional<double> expected;  // of the data, where that is known
  double tokens = 0;               // of a step: expected of the data, else at most
  double source_tokens = 0;
  double sequences = 0;  // of a step; 0: not known, as packs are filled when they are made
  double learned = 1;    // the share of its tokens that have a target, where the data is known
};

struct RunLimits {
  BatchLimits train;
  StepCut step;
  std::optional<BatchLimits> evaluate = std::nullopt;  // of a run that evaluates
};

// Every sequence as long as the recipe allows: what is known without the data.
RunLimits recipe_limits(const Recipe& recipe, const ModelSpec& spec);

// What a micro-batch is planned for where nothing bounds it: enough to keep any device busy.
inline constexpr int64_t kEnoughTokens = 16384;

// The tokens that a micro-batch of this recipe may have: memory.micro_batch_tokens, else the bound up to
// which they may be chosen. With an encoder: that it reads.
int64_t micro_batch_tokens(const Recipe& recipe);

// A micro-batch of so many tokens, whose sequences (or packs) are no longer than `longest` and no more than
// the step has: it holds at least the longest one, and of answers as many as stand for its sources.
BatchLimits micro_batch_limits(const Recipe& recipe, const BatchLimits& longest);
// How a step is cut into such micro-batches at most, each of its sequences (or packs) as long as the longest.
StepCut longest_step(const Recipe& recipe, const BatchLimits& longest, const BatchLimits& micro_batch);

// How large an evaluation's batch may become where the recipe leaves it open (auto): enough to keep any
// device busy. Until a plan has chosen, it is one sequence.
inline constexpr int64_t kMostEvaluationSequences = 64;
inline constexpr int64_t kMostEvaluationTokens = 16384;

// What no data can be below: one sequence of two tokens; packs are planned whole.
RunLimits smallest_limits(const Recipe& recipe, const ModelSpec& spec);

// Throws bad_input where sequences are longer than the model's positions and model.max_positions does not
// allow it.
void require_positions(const Recipe& recipe, const ModelSpec& spec);
// What to tell people where it does; "" where there is nothing to tell.
std::string positions_warning(const Recipe& recipe, const ModelSpec& spec);

// The limits of a recipe that may differ in its batch sizes; empty where only the recipe is known.
using LimitsOf = std::function<RunLimits(const Recipe&)>;

// The longest sequence that the decoder gets: of a model with an encoder, the answer.
int64_t decoder_length(const Recipe& recipe, bool has_encoder);

// What one pack holds: as many sequences as fit into the length of one, the longest that the recipe allows;
// and no more than a number that the plan knows.
BatchLimits pack_limits(const Recipe& recipe, bool has_encoder);
BatchLimits times(const BatchLimits& limits, int64_t count);

// An evaluation's batch of so many tokens: as many sequences as are worth having.
BatchLimits evaluation_limits(const BatchLimits& tokens, int64_t least_sequences);

}  // namespace snug
