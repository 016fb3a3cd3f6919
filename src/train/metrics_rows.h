// The rows of metrics.jsonl, under the names that Hugging Face's Trainer gives them, but for the step.
#pragma once

#include "train/run_events.h"

namespace snug {

Json step_row(const StepMetrics& metrics, int64_t tokens_so_far);
Json evaluation_row(const EvaluationMetrics& metrics);
Json sample_row(const Sample& sample);
// What the driver told last, beside a step's measures.
void add_card(const CardHealth& card, Json& row);

}  // namespace snug
