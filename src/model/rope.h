// Frequencies of the rotary positions, with the scalings that stretch them to longer texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/layer.h"

namespace snug {

// inverse_frequencies[i] for each pair of a head, in fp32 as Hugging Face computes them. `length_tokens` is
// the longest sequence of the program: "dynamic" scaling is plain up to its original length, and refused
// beyond, where it would change from batch to batch. `source` names the model in errors.
std::vector<float> rope_frequencies(const Rope& rope, int64_t head_dim, int64_t length_tokens,
                                    const std::string& source);

}  // namespace snug
