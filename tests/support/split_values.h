// Parameters as both halves of fp32 numbers (base/split_float.h), for tests on the CPU and on the card.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/split_float.h"
#include "program/op.h"

namespace snug {

// What test programs have beside their parameters, by its dtype: fp32 stands for nothing, int16 for rests.
inline Beside beside_of(DType dtype) {
  return dtype == DType::f32 ? Beside::nothing : dtype == DType::i16 ? Beside::rest : Beside::compute_copy;
}

template <typename T>
std::vector<std::byte> bytes_of_values(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// `Runner` has set_bytes(name, bytes).
template <typename Runner>
void set_split(Runner& runner, const std::string& upper, const std::string& rests,
               const std::vector<float>& values) {
  std::vector<uint16_t> upper_halves;
  std::vector<int16_t> lower_halves;
  for (float value : values) {
    SplitFloat halves = split_float(value);
    upper_halves.push_back(halves.bf16_bits);
    lower_halves.push_back(halves.rest);
  }
  runner.set_bytes(upper, bytes_of_values(upper_halves));
  runner.set_bytes(rests, bytes_of_values(lower_halves));
}

// `Runner` has bytes(name).
template <typename Runner>
std::vector<float> get_joined(const Runner& runner, const std::string& upper, const std::string& rests) {
  std::vector<std::byte> upper_halves = runner.bytes(upper);
  std::vector<std::byte> lower_halves = runner.bytes(rests);
  std::vector<float> values(upper_halves.size() / sizeof(uint16_t));
  for (size_t i = 0; i < values.size(); ++i) {
    SplitFloat halves;
    std::memcpy(&halves.bf16_bits, upper_halves.data() + 2 * i, 2);
    std::memcpy(&halves.rest, lower_halves.data() + 2 * i, 2);
    values[i] = join_float(halves);
  }
  return values;
}

// Infinities, and numbers that would be rounded to one, among others.
inline std::vector<float> with_the_largest(std::vector<float> values) {
  for (size_t i = 0; i < values.size(); i += 101) {
    float size = i % 2 == 0 ? std::numeric_limits<float>::infinity() : 0x1.fep127F;
    values[i] = std::copysign(size, values[i]);
  }
  return values;
}

}  // namespace snug
