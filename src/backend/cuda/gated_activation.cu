// Gated activations of feed-forward blocks: y = f(gate) * up, with gate and up side by side in x[T, 2F]. One
// thread a vector, fp32 math.
#include "backend/cuda/check.h"
#include "backend/cuda/gate_functions.cuh"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Function, typename T, int N>
__global__ void forward_kernel(const T* x, T* y, int64_t elements, int64_t width, bool accumulate) {
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i >= elements) {
    return;
  }
  int64_t row = i / width;
  const T* gate_source = x + i + row * width;
  Vector<T, N> gate = load<N>(gate_source);
  Vector<T, N> up = load<N>(gate_source + width);
  float values[N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    values[j] = Function::template at<T>(to_float(gate.at[j])).value * to_float(up.at[j]);
  }
  write<N>(y + i, values, accumulate);
}

template <typename Function, typename T, int N>
__global__ void backward_kernel(const T* x, const T* dy, T* dx, T* again, int64_t elements, int64_t width) {
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i >= elements) {
    return;
  }
  int64_t at = i + i / width * width;
  Vector<T, N> gate = load<N>(x + at);
  Vector<T, N> up = load<N>(x + at + width);
  Vector<T, N> gradient = load<N>(dy + i);
  float dgate[N];
  float dup[N];
  float value[N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    ValueAndSlope f = Function::template at<T>(to_float(gate.at[j]));
    float g = to_float(gradient.at[j]);
    dgate[j] = g * to_float(up.at[j]) * f.slope;
    dup[j] = g * f.value;
    value[j] = f.value * to_float(up.at[j]);
  }
  write<N>(dx + at, dgate, false);
  write<N>(dx + at + width, dup, false);
  if (again != nullptr) {
    write<N>(again + i, value, false);
  }
}

// Calls body with the function, the element type and the vector width of a call on rows of `columns`.
template <typename Body>
void with_all(const KernelCall& call, int64_t columns, const Body& body) {
  with_function(attributes_of<GateAttributes>(call.op).activation, [&](auto function) {
    with_type(call.inputs[0].dtype, [&](auto type) {
      with_width<typename decltype(type)::type>(columns, [&](auto width) { body(function, type, width); });
    });
  });
}

}  // namespace

// y[T, F] (= or +=) f(gate) * up; y may not be x.
void gated_activation(const Queue& queue, const KernelCall& call) {
  const Tensor& y = call.outputs[0];
  int64_t elements = y.elements();
  if (elements == 0) {
    return;
  }
  with_all(call, y.columns(), [&](auto function, auto type, auto width) {
    using T = typename decltype(type)::type;
    constexpr int kWidth = decltype(width)::value;
    forward_kernel<decltype(function), T, kWidth>
        <<<blocks_for(elements, kThreads * kWidth), kThreads, 0, queue.stream>>>(
            call.inputs[0].as<T>(), y.as<T>(), elements, y.columns(), call.op.accumulates_output(0));
  });
  check_launch("a gated activation");
}

// dx[T, 2F] =: dgate = dy * up * f'(gate), dup = dy * f(gate); where it is wanted, y[T, F] once more. dx may
// be x, and y dy.
void gated_activation_backward(const Queue& queue, const KernelCall& call) {
  const Tensor& dy = call.inputs[1];
  int64_t elements = dy.elements();
  SNUG_CHECK(call.op.accumulates == 0, "gated_activation_backward writes its gradient");
  if (elements == 0) {
    return;
  }
  with_all(call, dy.columns(), [&](auto function, auto type, auto width) {
    using T = typename decltype(type)::type;
    constexpr int kWidth = decltype(width)::value;
    backward_kernel<decltype(function), T, kWidth>
        <<<blocks_for(elements, kThreads * kWidth), kThreads, 0, queue.stream>>>(
            call.inputs[0].as<T>(), dy.as<T>(), call.outputs[0].as<T>(),
            call.has_output(1) ? call.outputs[1].as<T>() : nullptr, elements, dy.columns());
  });
  check_launch("the gradient of a gated activation");
}

}  // namespace snug::cuda
