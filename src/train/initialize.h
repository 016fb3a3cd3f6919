// Fresh values for weights and adapters: which distribution a tensor gets, and its own stream of random
// numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/model_spec.h"

namespace snug {

struct Initializer {
  enum class Kind { zero, one, normal, uniform };
  Kind kind = Kind::zero;
  float scale = 0;  // standard deviation, or the bound of the uniform range

  // Values [first, first + values.size()) of the tensor whose numbers these are, by all threads: each value
  // has its place in the stream, so that they are the same however they are divided.
  void fill(const Rng& tensor, int64_t first, std::span<float> values) const;
};

// Normal with the model's initializer_range; norms 1, biases 0.
Initializer weight_initializer(const Buffer& buffer, const TensorPart& part, const ModelSpec& spec);

// As PEFT makes them: A by Kaiming's rule with a = sqrt(5), which is uniform in +-1/sqrt(inputs); B zero.
Initializer adapter_initializer(const Buffer& buffer, const TensorPart& part);

// The same numbers for a tensor whatever buffer or file it lies in.
Rng tensor_rng(uint64_t seed, const std::string& tensor_name);

// The shape that a file gives to a part of a weight buffer.
std::vector<int64_t> part_shape(const Buffer& buffer, const TensorPart& part);

}  // namespace snug
