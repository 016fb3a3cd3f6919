// training.metric_for_best_model: which number of an evaluation says how good it is.
#pragma once

#include <cstdint>
#include <string>

#include "recipe/recipe.h"

namespace snug {

enum class EvalMeasure : uint8_t { loss, token_accuracy, exact_match };

struct EvalMetric {
  EvalMeasure measure = EvalMeasure::loss;
  std::string set;  // whose it is; "": that of all
};

// "eval_" may be left out of its name, as in Hugging Face.
EvalMetric best_metric(const TrainingSection& training);
// The recipe's word on it, else as the metric is made.
bool greater_is_better(const TrainingSection& training);

// The most that an evaluation generates behind one prompt, for a row's answer or for people to read; 0:
// nothing.
int64_t most_new_tokens(const TrainingSection& training);
bool has_validation_prompts(const TrainingSection& training);

// Why metric_for_best_model is none of this recipe's, or "".
std::string find_metric_problem(const Recipe& recipe);

}  // namespace snug
