// RMS norm, alone and after a residual addition, one block a row; and its gradient. Sums in fp32.
#include <algorithm>
#include <type_traits>

#include "backend/cuda/check.h"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/instructions/threads.cuh"
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

// N neighbouring numbers as they lie in memory: a register has two of 16 bits, where the compiler would give
// each one of its own.
template <typename T, int N>
struct Packed {
  static constexpr int kWords = (static_cast<int>(sizeof(T)) * N + 3) / 4;
  uint32_t words[kWords] = {};

  __device__ void read(const T* source) {
    if constexpr (sizeof(T) * N < 4) {
      words[0] = *reinterpret_cast<const uint16_t*>(source);
    } else {
      Vector<uint32_t, kWords> raw = load<kWords>(reinterpret_cast<const uint32_t*>(source));
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        words[i] = raw.at[i];
      }
    }
  }
  __device__ float operator[](int j) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[j]);
    } else {
      auto bits = static_cast<unsigned short>(words[j / 2] >> (16 * (j % 2)));
      if constexpr (std::is_same_v<T, __half>) {
        return __half2float(__ushort_as_half(bits));
      } else {
        return __uint_as_float(static_cast<uint32_t>(bits) << 16);
      }
    }
  }
  // From here on numbers are made of the words again, and not kept from before: that takes fewer registers.
  __device__ void forget_numbers() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      asm volatile("" : "+r"(words[i]));
    }
  }
};

// A group of warps holds a row in registers, each of its threads 16 numbers of it, or 32 of the widest.
constexpr int kMostWarps = 16;
constexpr int kGroupedWarps = 8;  // of a block, where groups are smaller
static_assert(kMostWarps * 32 * 32 == kWidestNorm);

struct RowGroup {
  int warps;   // of a group
  int groups;  // of a block
  int index;   // this thread's group
  int thread;  // within its group

  __device__ explicit RowGroup(int warps_of_group)
      : warps(warps_of_group),
        groups(static_cast<int>(blockDim.x) / (32 * warps)),
        index(static_cast<int>(threadIdx.x) / (32 * warps)),
        thread(static_cast<int>(threadIdx.x) % (32 * warps)) {}

  // Where the thread's vector v of a row starts.
  template <int N>
  __device__ int element(int v) const {
    return (v * warps * 32 + thread) * N;
  }

  // Both sums over the group, in all of its threads. `shared` may be written again behind the next barrier.
  __device__ void add_up(float& first, float& second, float (&shared)[kMostWarps][2]) const {
    first = warp_sum(first);
    second = warp_sum(second);
    if (warps == 1) {
      return;
    }
    int lane = thread % 32;
    if (lane == 0) {
      shared[threadIdx.x / 32][0] = first;
      shared[threadIdx.x / 32][1] = second;
    }
    wait_at_barrier(index + 1, warps * 32);
    first = warp_sum(lane < warps ? shared[index * warps + lane][0] : 0.0F);
    second = warp_sum(lane < warps ? shared[index * warps + lane][1] : 0.0F);
  }
};

// With n = x * scale and g = dy * w:  dx = scale * (g - n * mean(g * n)), and dw = the sum over rows of dy *
// n. A block takes a slice of the rows, its groups take them in turn; a row is read once, before anything
// waits.
template <typename T, typename W, int N, int kVectors, bool kWeight>
__global__ void __launch_bounds__(kMostWarps * 32)
    norm_backward_kernel(BackwardRows<T> rows, const W* weight, int warps) {
  __shared__ float shared[2][kMostWarps][2];  // by turns, so that one barrier a row is enough
  RowGroup group(warps);
  int64_t first = rows.tokens * blockIdx.x / gridDim.x;
  int64_t last = rows.tokens * (blockIdx.x + 1) / gridDim.x;
  auto width = static_cast<float>(rows.width);
  Packed<W, N> w[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (group.element<N>(v) < rows.width) {
      w[v].read(weight + group.element<N>(v));
    }
  }
  float dw[kVectors][N] = {};
  int turn = 0;
  for (int64_t row = first + group.index; row < last; row += group.groups, turn ^= 1) {
    int64_t begin = row * rows.width;
    Packed<T, N> x[kVectors];
    Packed<T, N> dy[kVectors];
    Packed<T, N> before[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      int i = group.element<N>(v);
      if (i < rows.width) {
        x[v].read(rows.x + begin + i);
        dy[v].read(rows.dy + begin + i);
        if (rows.accumulate) {
          before[v].read(rows.dx + begin + i);
        }
      }
    }
    float squares = 0;
    float dot = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        squares += x[v][j] * x[v][j];
        dot += dy[v][j] * w[v][j] * x[v][j];
      }
      x[v].forget_numbers();
      dy[v].forget_numbers();
      w[v].forget_numbers();
    }
    group.add_up(squares, dot, shared[turn]);
    float scale = rsqrtf(squares / width + rows.epsilon);
    float pull = dot * scale * scale / width;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      Vector<T, N> dx;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        dx.at[j] = round_to<T>(before[v][j] + scale * (dy[v][j] * w[v][j] - x[v][j] * pull));
        dw[v][j] += dy[v][j] * x[v][j] * scale;
      }
      w[v].forget_numbers();
      int i = group.element<N>(v);
      if (i < rows.width && rows.dx != nullptr) {
        store<N>(rows.dx + begin + i, dx);
      }
    }
  }
  if constexpr (kWeight) {
    // The groups add up what they have, one after the other; the last one writes it.
    extern __shared__ float sums[];
    float* slice = rows.partials + blockIdx.x * rows.width;
    for (int adding = 0; adding < group.groups; ++adding) {
      if (adding == group.index) {
        float* destination = adding + 1 < group.groups ? sums : slice;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
#pragma unroll
          for (int j = 0; j < N; ++j) {
            int i = group.element<N>(v) + j;
            if (i < rows.width) {
              destination[i] = adding > 0 ? sums[i] + dw[v][j] : dw[v][j];
            }
          }
        }
      }
      __syncthreads();
    }
  }
}

template <typename T, typename W, int N, int kVectors>
void launch_backward(const Queue& queue, const BackwardRows<T>& rows, const W* weight) {
  auto warps = static_cast<int>(blocks_for(rows.width, 32 * N * kVectors));
  if constexpr (N * kVectors == 16) {
    if (warps > kMostWarps) {
      return launch_backward<T, W, N, kVectors * 2>(queue, rows, weight);
    }
  }
  SNUG_CHECK(warps <= kMostWarps, "a norm of more numbers than find_unsupported lets through");
  int groups = std::max(kGroupedWarps / warps, 1);
  auto threads = static_cast<unsigned>(32 * warps * groups);
  if (rows.partials != nullptr) {
    size_t shared_bytes = groups > 1 ? static_cast<size_t>(rows.width) * sizeof(float) : 0;
    norm_backward_kernel<T, W, N, kVectors, true>
        <<<static_cast<unsigned>(norm_slices(rows.tokens)), threads, shared_bytes, queue.stream>>>(
            rows, weight, warps);
  } else {
    norm_backward_kernel<T, W, N, kVectors, false>
        <<<blocks_for(rows.tokens, groups), threads, 0, queue.stream>>>(rows, weight, warps);
  }
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
    with_weight_type<T>(call.inputs[1].dtype, [&](auto weight_type) {
      using W = typename decltype(weight_type)::type;
      with_width<T>(rows.width, [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        launch_backward<T, W, kWidth, 16 / kWidth>(queue, rows, call.inputs[1].as<W>());
      });
    });
    if (with_weight) {
      add_up_slices(queue.stream, rows.partials, dw, slices, call.op.accumulates_output(1));
    }
  });
  check_launch("the gradient of a norm");
}

}  // namespace snug::cuda
