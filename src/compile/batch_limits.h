// The largest batches that a run can meet: what its programs are planned for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

struct BatchLimits {
  int64_t sequences = 0;
  int64_t tokens = 0;         // of all sequences together; behind an encoder, of the answers
  int64_t source_tokens = 0;  // that an encoder reads
};

struct RunLimits {
  BatchLimits train;
  std::optional<BatchLimits> evaluate;  // of a run that evaluates
};

// Every sequence as long as the recipe allows: what is known without the data.
RunLimits recipe_limits(const Recipe& recipe, const ModelSpec& spec);

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
// and no more than a number that the plan knows. A micro-batch is per_device_train_batch_size packs.
BatchLimits pack_limits(const Recipe& recipe, bool has_encoder);
BatchLimits times(const BatchLimits& limits, int64_t count);

}  // namespace snug
