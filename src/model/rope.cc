// The scalings' formulas.
#include "model/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace snug {
namespace {

// Llama 3.1: long waves are slowed by the factor, short ones stay, those between are blended.
float scaled_as_llama3(float frequency, const RopeScaling& scaling) {
  auto original = static_cast<float>(scaling.original_positions);
  auto low = static_cast<float>(scaling.low_frequency_factor);
  auto high = static_cast<float>(scaling.high_frequency_factor);
  auto factor = static_cast<float>(scaling.factor);
  float wavelength = 2.0F * std::numbers::pi_v<float> / frequency;
  if (wavelength > original / low) {
    return frequency / factor;
  }
  if (wavelength < original / high) {
    return frequency;
  }
  float smooth = (original / wavelength - low) / (high - low);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

void require_static(const RopeScaling& scaling, int64_t length_tokens, const std::string& source) {
  if (length_tokens > scaling.original_positions) {
    throw bad_input(
        fmt::format("{}: dynamic rope scaling changes with the length of each batch beyond {} tokens, and "
                    "this run asks for {}: lower data.max_length, or give the model a linear or llama3 "
                    "scaling",
                    source, scaling.original_positions, length_tokens));
  }
}

}  // namespace

std::vector<float> rope_frequencies(const Rope& rope, int64_t head_dim, int64_t length_tokens,
                                    const std::string& source) {
  const RopeScaling& scaling = rope.scaling;
  if (scaling.kind == RopeScaling::Kind::dynamic) {
    require_static(scaling, length_tokens, source);
  }
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    float frequency = 1.0F / std::pow(static_cast<float>(rope.theta), exponent);
    if (scaling.kind == RopeScaling::Kind::linear) {
      frequency /= static_cast<float>(scaling.factor);
    } else if (scaling.kind == RopeScaling::Kind::llama3) {
      frequency = scaled_as_llama3(frequency, scaling);
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace snug
