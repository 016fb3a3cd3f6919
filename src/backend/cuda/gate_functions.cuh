// The functions of gated activations. 16-bit results are made by the units' own exponentials and quotients,
// whose errors are far below what is rounded; all kernels take these functions, so that what is made again
// has the same bits.
#pragma once

#include <type_traits>

#include "program/op.h"

namespace snug::cuda {

// A function's value and slope at one point.
struct ValueAndSlope {
  float value;
  float slope;
};

// 1 / (1 + e^-x).
template <typename T>
__device__ inline float sigmoid(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return 1.0F / (1.0F + expf(-x));
  } else {
    return __fdividef(1.0F, 1.0F + __expf(-x));
  }
}

struct Silu {
  template <typename T>
  __device__ static ValueAndSlope at(float x) {
    float s = sigmoid<T>(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  template <typename T>
  __device__ static ValueAndSlope at(float x) {
    constexpr float kTwiceRoot = 1.5957691216057308F;
    constexpr float kCubic = 0.044715F;
    float s = sigmoid<T>(kTwiceRoot * (x + kCubic * x * x * x));
    float inner_slope = kTwiceRoot * (1.0F + 3.0F * kCubic * x * x);
    return {x * s, s + x * s * (1.0F - s) * inner_slope};
  }
};

struct Gelu {
  template <typename T>
  __device__ static ValueAndSlope at(float x) {
    constexpr float kInverseRootTwoPi = 0.39894228040143268F;
    float cumulative = normcdff(x);
    return {x * cumulative, cumulative + x * kInverseRootTwoPi * expf(-0.5F * x * x)};
  }
};

template <typename Body>
void with_function(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::silu:
      return body(Silu{});
    case Activation::gelu_tanh:
      return body(GeluTanh{});
    case Activation::gelu:
      return body(Gelu{});
  }
}

}  // namespace snug::cuda
