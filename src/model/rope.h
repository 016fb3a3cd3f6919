// Frequencies of the rotary positions, with the scalings that stretch them to longer texts.
#pragma once

#include <vector>

#include "model/model_spec.h"

namespace snug {

// inverse_frequencies[i] for each pair of a head, in fp32 as Hugging Face computes them. `length_tokens` is
// the longest sequence of the program: "dynamic" scaling is plain up to its original length, and refused
// beyond, where it would change from batch to batch.
std::vector<float> rope_frequencies(const ModelSpec& spec, int64_t length_tokens);

}  // namespace snug
