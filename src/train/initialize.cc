// Distributions of fresh values.
#include "train/initialize.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/threads.h"

namespace snug {

void Initializer::fill(const Rng& tensor, int64_t first, std::span<float> values) const {
  constexpr int64_t kGrain = 1 << 12;
  parallel_for(std::ssize(values), kGrain, [&](int64_t begin, int64_t end) {
    std::span<float> piece = values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    Rng rng = tensor;
    rng.seek(static_cast<uint64_t>(first + begin));  // a word of the stream a value
    switch (kind) {
      case Kind::zero:
        std::fill(piece.begin(), piece.end(), 0.0F);
        break;
      case Kind::one:
        std::fill(piece.begin(), piece.end(), 1.0F);
        break;
      case Kind::normal:
        rng.fill_normal(piece);
#pragma omp simd
        for (size_t i = 0; i < piece.size(); ++i) {
          piece[i] *= scale;
        }
        break;
      case Kind::uniform:
        rng.fill_uniform(piece);
#pragma omp simd
        for (size_t i = 0; i < piece.size(); ++i) {
          piece[i] = scale * (2.0F * piece[i] - 1.0F);
        }
        break;
    }
  });
}

Initializer weight_initializer(const Buffer& buffer, const TensorPart& part, const ModelSpec& spec) {
  if (part.names.front().ends_with(".bias")) {
    return {Initializer::Kind::zero};
  }
  if (buffer.dims.size() == 1) {
    return {Initializer::Kind::one};
  }
  return {Initializer::Kind::normal, static_cast<float>(spec.initializer_range)};
}

Initializer adapter_initializer(const Buffer& buffer, const TensorPart& part) {
  if (part.names.front().ends_with(".lora_B.weight")) {
    return {Initializer::Kind::zero};
  }
  return {Initializer::Kind::uniform, 1.0F / std::sqrt(static_cast<float>(buffer.dims[1].max))};
}

Rng tensor_rng(uint64_t seed, const std::string& tensor_name) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (char c : tensor_name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  }
  return Rng(seed, hash);
}

std::vector<int64_t> part_shape(const Buffer& buffer, const TensorPart& part) {
  std::vector<int64_t> shape = {part.rows};
  for (size_t i = 1; i < buffer.dims.size(); ++i) {
    shape.push_back(buffer.dims[i].max);
  }
  return shape;
}

}  // namespace snug
