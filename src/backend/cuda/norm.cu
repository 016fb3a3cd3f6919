// RMS norm, alone and after a residual addition, and its gradient. One block a row; sums in fp32.
#include "backend/cuda/check.h"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda_plan/scratch.h"

namespace snug::cuda {
namespace {

constexpr int kMostThreads = 512;

// Enough threads that each has one to a few vectors of a row.
int threads_for(int64_t vectors) {
  int threads = 32;
  while (threads < kMostThreads && threads * 2 < vectors) {
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
  T* dx;            // null: not wanted; may be x or dy
  float* partials;  // [slices, D] of the weight's gradient; null: not wanted
  int64_t tokens;
  int64_t width;
  float epsilon;
  bool accumulate;
};

// Both sums over the block, in every thread, with one barrier.
__device__ inline void block_sums(float& first, float& second, float (&shared)[2][32]) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  int warp = static_cast<int>(threadIdx.x) / 32;
  int warps = static_cast<int>(blockDim.x) / 32;
  first = warp_sum(first);
  second = warp_sum(second);
  if (lane == 0) {
    shared[0][warp] = first;
    shared[1][warp] = second;
  }
  __syncthreads();
  first = warp_sum(lane < warps ? shared[0][lane] : 0.0F);
  second = warp_sum(lane < warps ? shared[1][lane] : 0.0F);
}

// With n = x * scale and g = dy * w:  dx = scale * (g - n * mean(g * n)). The second reading of the row comes
// from the cache.
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
  auto width = static_cast<float>(rows.width);
  block_sums(squares, dot, shared);
  float scale = rsqrtf(squares / width + rows.epsilon);
  float pull = dot * scale * scale / width;
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

// Where the thread's vector v of a row starts.
template <int N>
__device__ inline int element_of(int v) {
  return static_cast<int>(threadIdx.x + v * blockDim.x) * N;
}

// What a thread has of a row.
template <typename T, int N, int kVectors>
struct RowPieces {
  Vector<T, N> x[kVectors];
  Vector<T, N> dy[kVectors];

  __device__ void read(const BackwardRows<T>& rows, int64_t row) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      int i = element_of<N>(v);
      if (i < rows.width) {
        x[v] = load<N>(rows.x + row * rows.width + i);
        dy[v] = load<N>(rows.dy + row * rows.width + i);
      }
    }
  }
};

// The same, with dw = the sum over rows of dy * n: a block takes a slice of the rows, whose sum a thread
// keeps for its columns, and reads a row before it is done with the one before.
template <typename T, typename W, int N, int kVectors>
__global__ void __launch_bounds__(kMostThreads) norm_backward_slices(BackwardRows<T> rows, const W* weight) {
  __shared__ float shared[2][2][32];  // by turns, so that one barrier a row is enough
  int64_t first = rows.tokens * blockIdx.x / gridDim.x;
  int64_t last = rows.tokens * (blockIdx.x + 1) / gridDim.x;
  auto width = static_cast<float>(rows.width);
  float dw[kVectors][N] = {};
  RowPieces<T, N, kVectors> now;
  RowPieces<T, N, kVectors> next;
  next.read(rows, first);
  for (int64_t row = first; row < last; ++row) {
    now = next;
    if (row + 1 < last) {
      next.read(rows, row + 1);
    }
    float squares = 0;
    float dot = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      int i = element_of<N>(v);
      if (i < rows.width) {
        Vector<W, N> w = load<N>(weight + i);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float x = to_float(now.x[v].at[j]);
          squares += x * x;
          dot += to_float(now.dy[v].at[j]) * to_float(w.at[j]) * x;
        }
      }
    }
    block_sums(squares, dot, shared[(row - first) & 1]);
    float scale = rsqrtf(squares / width + rows.epsilon);
    float pull = dot * scale * scale / width;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      int i = element_of<N>(v);
      if (i < rows.width) {
        Vector<W, N> w = load<N>(weight + i);
        float values[N];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float x = to_float(now.x[v].at[j]);
          float dy = to_float(now.dy[v].at[j]);
          values[j] = scale * (dy * to_float(w.at[j]) - x * pull);
          dw[v][j] += dy * x * scale;
        }
        if (rows.dx != nullptr) {
          write<N>(rows.dx + row * rows.width + i, values, rows.accumulate);
        }
      }
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    int i = element_of<N>(v);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (i < rows.width) {
        rows.partials[blockIdx.x * rows.width + i + j] = dw[v][j];
      }
    }
  }
}

// As few vectors a thread as there can be: waiting for memory is what takes the time.
template <typename T, typename W, int N, int kVectors>
void launch_backward_slices(const Queue& queue, const BackwardRows<T>& rows, const W* weight) {
  constexpr int kMostVectors = kWidestNorm / (kMostThreads * N);
  int64_t threads = (rows.width + kVectors * N - 1) / (kVectors * N);
  if constexpr (kVectors < kMostVectors) {
    if (threads > kMostThreads) {
      return launch_backward_slices<T, W, N, kVectors * 2>(queue, rows, weight);
    }
  }
  auto slices = static_cast<unsigned>(norm_slices(rows.tokens));
  auto whole_warps = static_cast<unsigned>((threads + 31) / 32 * 32);
  norm_backward_slices<T, W, N, kVectors><<<slices, whole_warps, 0, queue.stream>>>(rows, weight);
}

template <typename T>
void launch_backward(const Queue& queue, const BackwardRows<T>& rows, const Tensor& weight) {
  with_weight_type<T>(weight.dtype, [&](auto weight_type) {
    using W = typename decltype(weight_type)::type;
    with_width<T>(rows.width, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      constexpr int kFewest = kWidth == 1 ? 8 : 1;  // odd widths are rare: fewer kernels of them
      if (rows.partials != nullptr) {
        launch_backward_slices<T, W, kWidth, kFewest>(queue, rows, weight.as<W>());
      } else {
        norm_backward_kernel<T, W, kWidth>
            <<<static_cast<unsigned>(rows.tokens), threads_for(rows.width / kWidth), 0, queue.stream>>>(
                rows, weight.as<W>());
      }
    });
  });
}

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

// dx (= or +=), dw[D] (= or +=). dx may be written over x or dy.
void rms_norm_backward(const Queue& queue, const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& dw = call.outputs[1];
  int64_t tokens = x.rows();
  if (tokens == 0) {
    return;
  }
  bool with_weight = dw.data != nullptr;
  int64_t slices = norm_slices(tokens);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    BackwardRows<T> rows{
        .x = x.as<T>(),
        .dy = call.inputs[2].as<T>(),
        .dx = call.outputs[0].as<T>(),
        .partials = with_weight ? Scratch(call.workspace).take<float>(slices * x.columns()) : nullptr,
        .tokens = tokens,
        .width = x.columns(),
        .epsilon = attributes_of<NormAttributes>(call.op).epsilon,
        .accumulate = call.op.accumulates_output(0)};
    launch_backward(queue, rows, call.inputs[1]);
    if (with_weight) {
      add_up_slices(queue.stream, rows.partials, dw, slices, call.op.accumulates_output(1));
    }
  });
  check_launch("the gradient of a norm");
}

}  // namespace snug::cuda
