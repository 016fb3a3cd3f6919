// Which evaluation is the best, and how long there was no better one.
#pragma once

#include "recipe/recipe.h"
#include "train/run_progress.h"

namespace snug {

// Whether it is the best so far. Counts those in a row that are no better than the best by
// early_stopping_threshold, as Hugging Face's EarlyStoppingCallback does.
bool note_evaluation(const EvaluationMetrics& evaluation, const TrainingSection& training,
                     RunProgress& progress);

// Whether the run is to end for that.
bool has_lost_patience(const TrainingSection& training, const RunProgress& progress);

}  // namespace snug
