// The rows of metrics.jsonl, under the names that Hugging Face's Trainer gives them, but for the step.
#pragma once

#include "train/run_progress.h"

namespace snug {

Json step_row(const StepMetrics& metrics, int64_t tokens_so_far);
Json evaluation_row(const EvaluationMetrics& metrics);

}  // namespace snug
