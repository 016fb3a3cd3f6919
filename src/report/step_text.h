// What steps, evaluations and cards are in words, for terminals and logs alike.
#pragma once

#include <string>

#include "backend/device.h"
#include "train/run_events.h"

namespace snug {

// "evaluation step 20: loss 1.2345 over 1,234 targets, 56.7% right"
std::string evaluation_text(const EvaluationMetrics& metrics);
// ", 56.7% right, 3 of 8 answers exact"
std::string right_text(const EvaluationMetrics& metrics);
// sample 1: "Log: fox" → "a fox", wished for: "the fox", each text cut to so many bytes.
std::string sample_text(const Sample& sample, size_t max_bytes);
// "72 °C 310 W throttled by heat"; "" if nothing is known.
std::string card_text(const CardHealth& card);

}  // namespace snug
