// Gated activations of feed-forward blocks: y = f(gate) * up, with gate and up side by side in x[T, 2F].
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/fast_math.h"
#include "backend/cpu/kernel_functions.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

// A function's value and slope at one point.
struct ValueAndSlope {
  float value;
  float slope;
};

struct Silu {
  static ValueAndSlope at(float x) {
    float s = fast_sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  static ValueAndSlope at(float x) {
    constexpr float kTwiceRoot = 1.5957691216057308F;
    constexpr float kCubic = 0.044715F;
    float s = fast_sigmoid(kTwiceRoot * (x + kCubic * x * x * x));
    float inner_slope = kTwiceRoot * (1.0F + 3.0F * kCubic * x * x);
    return {x * s, s + x * s * (1.0F - s) * inner_slope};
  }
};

// x times the normal distribution's cumulative probability. Its smaller tail is e^(-x^2 / 2) times a
// polynomial (Abramowitz and Stegun 7.1.26, absolute error 7.5e-8), which vectorises where erf does not.
struct Gelu {
  static ValueAndSlope at(float x) {
    constexpr float kScale = 0.3275911F * 0.70710678118654752F;
    constexpr float kInverseRootTwoPi = 0.39894228040143268F;
    float t = 1.0F / (1.0F + kScale * std::abs(x));
    float bell = fast_exp(-0.5F * x * x);
    float polynomial = 1.061405429F;
    polynomial = polynomial * t - 1.453152027F;
    polynomial = polynomial * t + 1.421413741F;
    polynomial = polynomial * t - 0.284496736F;
    polynomial = polynomial * t + 0.254829592F;
    float tail = 0.5F * bell * polynomial * t;
    float cumulative = x < 0 ? tail : 1.0F - tail;
    return {x * cumulative, cumulative + x * kInverseRootTwoPi * bell};
  }
};

template <typename Body>
void with_function(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::silu:
      body(Silu{});
      return;
    case Activation::gelu_tanh:
      body(GeluTanh{});
      return;
    case Activation::gelu:
      body(Gelu{});
      return;
  }
}

template <typename Function, bool kAccumulate, typename T>
void forward_rows(const KernelCall& call) {
  const Tensor& y = call.outputs[0];
  int64_t width = y.columns();
  parallel_for(y.rows(), row_grain(width), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const T* gate = call.inputs[0].as<T>() + row * 2 * width;
      const T* up = gate + width;
      T* out = y.as<T>() + row * width;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        store<kAccumulate>(out[i], Function::at(to_float(gate[i])).value * to_float(up[i]));
      }
    }
  });
}

template <typename Function, bool kAccumulate, bool kAgain, typename T>
void backward_rows(const KernelCall& call) {
  const Tensor& dy = call.inputs[1];
  int64_t width = dy.columns();
  parallel_for(dy.rows(), row_grain(width), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const T* gate = call.inputs[0].as<T>() + row * 2 * width;
      const T* up = gate + width;
      const T* gradient = dy.as<T>() + row * width;
      T* dgate = call.outputs[0].as<T>() + row * 2 * width;
      T* dup = dgate + width;
      T* again = kAgain ? call.outputs[1].as<T>() + row * width : nullptr;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        ValueAndSlope f = Function::at(to_float(gate[i]));
        float g = to_float(gradient[i]);
        float value = f.value * to_float(up[i]);
        float scaled = g * to_float(up[i]) * f.slope;
        store<kAccumulate>(dup[i], g * f.value);
        store<kAccumulate>(dgate[i], scaled);
        if constexpr (kAgain) {
          store<false>(again[i], value);
        }
      }
    }
  });
}

}  // namespace

// y[T, F] (= or +=) f(gate) * up, in fp32. Threads share the tokens; y may not be x.
void gated_activation(const KernelCall& call) {
  with_type(call.inputs[0].dtype, [&](auto type) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      with_function(attributes_of<GateAttributes>(call.op).activation, [&](auto function) {
        forward_rows<decltype(function), decltype(accumulate)::value, typename decltype(type)::type>(call);
      });
    });
  });
}

// dx[T, 2F] (= or +=): dgate = dy * up * f'(gate), dup = dy * f(gate); where it is wanted, y[T, F] once more.
// dx may be x, and y dy.
void gated_activation_backward(const KernelCall& call) {
  with_type(call.inputs[0].dtype, [&](auto type) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      with_function(attributes_of<GateAttributes>(call.op).activation, [&](auto function) {
        with_flag(call.has_output(1), [&](auto again) {
          backward_rows<decltype(function), decltype(accumulate)::value, decltype(again)::value,
                        typename decltype(type)::type>(call);
        });
      });
    });
  });
}

}  // namespace snug::cpu
