// RMS norm, alone and after a residual addition, and its gradient. One block a row; sums in fp32.
#include "backend/cuda/check.h"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/scratch.h"

namespace snug::cuda {
namespace {

// Enough threads that each has one to a few vectors of a row.
int threads_for(int64_t vectors) {
  int threads = 32;
  while (threads < 512 && threads * 2 < vectors) {
    threads *= 2;
  }
  return threads;
}

template <typename T>
struct ForwardRows {
  const T* x;
  const T* b;  // null: no addition
  T* sum;      // x + b
  T* y;
  int64_t width;
  float epsilon;
  bool accumulate;
};

// y = (x / rms(x), rounded) * w. The second reading of the row comes from the cache.
template <typename T, typename W, int N>
__global__ void norm_kernel(ForwardRows<T> rows, const W* weight) {
  __shared__ float shared[32];
  int64_t row = static_cast<int64_t>(blockIdx.x) * rows.width;
  const T* source = rows.b == nullptr ? rows.x + row : rows.sum + row;
  float squares = 0;
  for (int64_t i = threadIdx.x * N; i < rows.width; i += blockDim.x * N) {
    Vector<T, N> x = load<N>(rows.x + row + i);
    if (rows.b != nullptr) {
      Vector<T, N> b = load<N>(rows.b + row + i);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        x.at[j] = round_to<T>(to_float(x.at[j]) + to_float(b.at[j]));
      }
      store<N>(rows.sum + row + i, x);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      squares += to_float(x.at[j]) * to_float(x.at[j]);
    }
  }
  float scale = rsqrtf(block_sum(squares, shared) / static_cast<float>(rows.width) + rows.epsilon);
  // Every thread reads only what it wrote itself.
  for (int64_t i = threadIdx.x * N; i < rows.width; i += blockDim.x * N) {
    Vector<T, N> x = load<N>(source + i);
    Vector<W, N> w = load<N>(weight + i);
    float values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values[j] = to_float(round_to<T>(to_float(x.at[j]) * scale)) * to_float(w.at[j]);
    }
    write<N>(rows.y + row + i, values, rows.accumulate);
  }
}

template <typename T>
void launch_forward(const Queue& queue, const ForwardRows<T>& rows, const Tensor& weight, int64_t tokens) {
  if (tokens == 0) {
    return;
  }
  with_weight_type<T>(weight.dtype, [&](auto weight_type) {
    using W = typename decltype(weight_type)::type;
    with_width<T>(rows.width, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      norm_kernel<T, W, kWidth>
          <<<static_cast<unsigned>(tokens), threads_for(rows.width / kWidth), 0, queue.stream>>>(
              rows, weight.as<W>());
    });
  });
  check_launch("normalising");
}

template <typename T>
struct BackwardRows {
  const T* x;
  const T* dy;
  T* dx;         // null: not wanted; may be x or dy
  float* scale;  // [T], for the weight's gradient; null: not wanted
  int64_t width;
  float epsilon;
  bool accumulate;
};

// With n = x * scale and g = dy * w:  dx = scale * (g - n * mean(g * n)).
template <typename T, typename W, int N>
__global__ void norm_backward_kernel(BackwardRows<T> rows, const W* weight) {
  __shared__ float shared[2][32];
  int64_t row = static_cast<int64_t>(blockIdx.x) * rows.width;
  float squares = 0;
  float dot = 0;
  for (int64_t i = threadIdx.x * N; i < rows.width; i += blockDim.x * N) {
    Vector<T, N> x = load<N>(rows.x + row + i);
    Vector<T, N> dy = load<N>(rows.dy + row + i);
    Vector<W, N> w = load<N>(weight + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      squares += to_float(x.at[j]) * to_float(x.at[j]);
      dot += to_float(dy.at[j]) * to_float(w.at[j]) * to_float(x.at[j]);
    }
  }
  float width = static_cast<float>(rows.width);
  float scale = rsqrtf(block_sum(squares, shared[0]) / width + rows.epsilon);
  float pull = block_sum(dot, shared[1]) * scale * scale / width;
  if (rows.scale != nullptr && threadIdx.x == 0) {
    rows.scale[blockIdx.x] = scale;
  }
  if (rows.dx == nullptr) {
    return;
  }
  for (int64_t i = threadIdx.x * N; i < rows.width; i += blockDim.x * N) {
    Vector<T, N> x = load<N>(rows.x + row + i);
    Vector<T, N> dy = load<N>(rows.dy + row + i);
    Vector<W, N> w = load<N>(weight + i);
    float values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values[j] = scale * (to_float(dy.at[j]) * to_float(w.at[j]) - to_float(x.at[j]) * pull);
    }
    write<N>(rows.dx + row + i, values, rows.accumulate);
  }
}

// dy * x * scale: what a token adds to the gradient of w.
template <typename T>
struct WeightTerm {
  const T* x;
  const T* dy;
  const float* scale;
  int64_t width;

  __device__ float operator()(int64_t row, int64_t column) const {
    int64_t i = row * width + column;
    return to_float(dy[i]) * to_float(x[i]) * scale[row];
  }
};

}  // namespace

// y (= or +=) norm(x).
void rms_norm(const Queue& queue, const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    ForwardRows<T> rows{.x = x.as<T>(),
                        .b = nullptr,
                        .sum = nullptr,
                        .y = call.outputs[0].as<T>(),
                        .width = x.columns(),
                        .epsilon = attributes_of<NormAttributes>(call.op).epsilon,
                        .accumulate = call.op.accumulates_output(0)};
    launch_forward(queue, rows, call.inputs[1], x.rows());
  });
}

// sum = a + b, y = norm(sum).
void add_rms_norm(const Queue& queue, const KernelCall& call) {
  const Tensor& a = call.inputs[0];
  SNUG_CHECK(call.op.accumulates == 0, "add_rms_norm writes its outputs, it does not add to them");
  with_type(a.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    ForwardRows<T> rows{.x = a.as<T>(),
                        .b = call.inputs[1].as<T>(),
                        .sum = call.outputs[0].as<T>(),
                        .y = call.outputs[1].as<T>(),
                        .width = a.columns(),
                        .epsilon = attributes_of<NormAttributes>(call.op).epsilon,
                        .accumulate = false};
    launch_forward(queue, rows, call.inputs[2], a.rows());
  });
}

// dx (= or +=), dw[D] (= or +=). The weight's gradient comes first: dx may be written over x or dy.
void rms_norm_backward(const Queue& queue, const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& weight = call.inputs[1];
  const Tensor& dw = call.outputs[1];
  int64_t tokens = x.rows();
  float* scale = nullptr;
  float* partials = nullptr;
  if (dw.data != nullptr) {
    Scratch scratch(call.workspace);
    scale = scratch.take<float>(tokens);
    partials = scratch.take<float>(slice_count(tokens) * x.columns());
  }
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    BackwardRows<T> rows{.x = x.as<T>(),
                         .dy = call.inputs[2].as<T>(),
                         .dx = nullptr,
                         .scale = scale,
                         .width = x.columns(),
                         .epsilon = attributes_of<NormAttributes>(call.op).epsilon,
                         .accumulate = call.op.accumulates_output(0)};
    auto launch = [&] {
      with_weight_type<T>(weight.dtype, [&](auto weight_type) {
        using W = typename decltype(weight_type)::type;
        with_width<T>(rows.width, [&](auto width) {
          constexpr int kWidth = decltype(width)::value;
          norm_backward_kernel<T, W, kWidth>
              <<<static_cast<unsigned>(tokens), threads_for(rows.width / kWidth), 0, queue.stream>>>(
                  rows, weight.as<W>());
        });
      });
    };
    if (dw.data != nullptr && tokens > 0) {
      launch();
      column_sums(queue.stream, WeightTerm<T>{rows.x, rows.dy, scale, rows.width}, partials, dw, tokens,
                  call.op.accumulates_output(1));
    }
    rows.scale = nullptr;
    rows.dx = call.outputs[0].as<T>();
    if (rows.dx != nullptr && tokens > 0) {
      launch();
    }
  });
  check_launch("the gradient of a norm");
}

int64_t rms_norm_backward_workspace(const Program& program, const Op& op) {
  if (op.outputs[1] == kNoBuffer) {
    return 0;
  }
  const Buffer& x = program.buffer(op.inputs[0]);
  return padded_bytes_of<float>(x.dims[0].max) +
         padded_bytes_of<float>(slice_count(x.dims[0].max) * x.dims[1].max);
}

}  // namespace snug::cuda
