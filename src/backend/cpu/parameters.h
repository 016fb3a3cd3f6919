// The parameters of an update as its kernels see them, whatever is beside them.
#pragma once

#include <cstdint>

#include "backend/cpu/dispatch.h"
#include "base/split_float.h"
#include "program/op.h"

namespace snug::cpu {

// The two halves of fp32 numbers (base/split_float.h).
struct SplitParameters {
  bf16_t* upper = nullptr;
  int16_t* rest = nullptr;
};

template <typename Copy>
struct CopiedParameters {
  float* master = nullptr;
  Copy* copy = nullptr;
};

template <typename T>
float parameter_at(const T* parameters, int64_t i) {
  return to_float(parameters[i]);
}
template <typename Copy>
float parameter_at(const CopiedParameters<Copy>& parameters, int64_t i) {
  return parameters.master[i];
}
inline float parameter_at(const SplitParameters& parameters, int64_t i) {
  return join_float({parameters.upper[i].bits, parameters.rest[i]});
}

// Nothing is lost of a value; bf16 alone is rounded by chance instead.
inline void set_parameter(float* parameters, int64_t i, float value) {
  parameters[i] = value;
}
inline void set_parameter(const SplitParameters& parameters, int64_t i, float value) {
  SplitFloat halves = split_float(value);
  parameters.upper[i] = bf16_t{halves.bf16_bits};
  parameters.rest[i] = halves.rest;
}
template <typename Copy>
void set_parameter(const CopiedParameters<Copy>& parameters, int64_t i, float value) {
  parameters.master[i] = value;
  parameters.copy[i] = round_to<Copy>(value);
}

// One parameter of an update, and what is beside it.
struct ParameterTensors {
  const Tensor* parameter = nullptr;
  const Tensor* beside = nullptr;
  Beside kind_beside = Beside::nothing;
};

template <typename Places>
ParameterTensors parameter_tensors(const KernelCall& call, const Places& places, size_t i) {
  return {.parameter = &call.outputs[places.parameter(i)],
          .beside = places.has_beside() ? &call.outputs[places.beside(i)] : nullptr,
          .kind_beside = places.kind_beside()};
}

// Calls body(parameters) with what holds them from element `first` on: float*, bf16_t*, SplitParameters or
// CopiedParameters.
template <typename Body>
void with_parameters(const ParameterTensors& tensors, int64_t first, const Body& body) {
  const Tensor& parameter = *tensors.parameter;
  switch (tensors.kind_beside) {
    case Beside::nothing:
      with_type(parameter.dtype,
                [&](auto type) { body(parameter.as<typename decltype(type)::type>() + first); });
      return;
    case Beside::compute_copy:
      with_type(tensors.beside->dtype, [&](auto type) {
        using Copy = typename decltype(type)::type;
        body(CopiedParameters<Copy>{.master = parameter.as<float>() + first,
                                    .copy = tensors.beside->as<Copy>() + first});
      });
      return;
    case Beside::rest:
      body(SplitParameters{.upper = parameter.as<bf16_t>() + first,
                           .rest = tensors.beside->as<int16_t>() + first});
      return;
  }
}

}  // namespace snug::cpu
