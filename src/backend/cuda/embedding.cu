// Looking up rows of a table, and adding gradients to them.
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

// y[t] (= or +=) table[ids[t]]. One block a token.
template <typename W, typename T, int N>
__global__ void embedding_kernel(const W* table, const int32_t* ids, T* y, int64_t vocabulary, int64_t width,
                                 bool accumulate) {
  int64_t id = ids[blockIdx.x];
  if (id < 0 || id >= vocabulary) {
    __trap();
  }
  for (int64_t i = threadIdx.x * N; i < width; i += kThreads * N) {
    Vector<W, N> source = load<N>(table + id * width + i);
    float values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values[j] = to_float(source.at[j]);
    }
    write<N>(y + static_cast<int64_t>(blockIdx.x) * width + i, values, accumulate);
  }
}

// Ids that a block looks at at once: of each of some groups a thread has four neighbouring ones.
constexpr int kGroups = 4;
constexpr int kGroupIds = kThreads * 4;
constexpr int kIdsAtOnce = kGroups * kGroupIds;

// Which of the thread's ids behind `first` are this one: a bit each, four of a group.
__device__ unsigned matches_of(const int32_t* ids, int64_t first, int64_t tokens, int32_t id) {
  unsigned matches = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    int64_t begin = first + group * kGroupIds + static_cast<int64_t>(threadIdx.x) * 4;
    if (begin + 4 <= tokens) {
      Vector<int32_t, 4> four = load<4>(ids + begin);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        matches |= (four.at[j] == id ? 1U : 0U) << (4 * group + j);
      }
    } else {
      for (int j = 0; begin + j < tokens; ++j) {
        matches |= (ids[begin + j] == id ? 1U : 0U) << (4 * group + j);
      }
    }
  }
  return matches;
}

// Lists the tokens of all threads' matches behind `first`, in order; returns how many.
__device__ int list_tokens(unsigned matches, int64_t first, int* tokens, int* counts) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  int warp = static_cast<int>(threadIdx.x) / 32;
  int total = 0;
  for (int group = 0; group < kGroups; ++group) {
    unsigned own = matches >> (4 * group) & 0xfU;
    int up_to = __popc(own);  // matches of this warp up to this thread
    for (int offset = 1; offset < 32; offset *= 2) {
      int other = __shfl_up_sync(0xffffffffU, up_to, offset);
      up_to += lane >= offset ? other : 0;
    }
    if (lane == 31) {
      counts[warp] = up_to;
    }
    __syncthreads();
    int at = total + up_to - __popc(own);
    for (int i = 0; i < kThreads / 32; ++i) {
      at += i < warp ? counts[i] : 0;
      total += counts[i];
    }
    int begin = static_cast<int>(first) + group * kGroupIds + static_cast<int>(threadIdx.x) * 4;
    for (; own != 0; own &= own - 1) {
      tokens[at++] = begin + __ffs(own) - 1;
    }
    __syncthreads();
  }
  return total;
}

// dtable[ids[t]] += dy[t], summed in fp32 and rounded once to the dtype `G` of the gradient. The block of a
// row's first token adds up all tokens of that row, in their order; the blocks of the others have nothing to
// do. Blocks: (tokens, columns).
template <typename T, typename G, int N>
__global__ void embedding_backward_kernel(const int32_t* ids, const T* dy, G* dtable, int64_t tokens,
                                          int64_t vocabulary, int64_t width) {
  __shared__ int found[kIdsAtOnce];
  __shared__ int counts[kThreads / 32];
  int64_t own = blockIdx.x;
  int32_t id = ids[own];
  if (id < 0 || id >= vocabulary) {
    __trap();
  }
  int64_t column = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * N;
  float sums[N] = {};
  for (int64_t first = 0; first < tokens; first += kIdsAtOnce) {
    unsigned matches = matches_of(ids, first, tokens, id);
    if (__syncthreads_or(matches != 0 ? 1 : 0) == 0) {
      continue;
    }
    int count = list_tokens(matches, first, found, counts);
    if (found[0] < own) {
      return;
    }
    if (column < width) {
#pragma unroll 4
      for (int i = 0; i < count; ++i) {
        Vector<T, N> row = load<N>(dy + static_cast<int64_t>(found[i]) * width + column);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          sums[j] += to_float(row.at[j]);
        }
      }
    }
    __syncthreads();
  }
  if (column < width) {
    write<N>(dtable + id * width + column, sums, true);
  }
}

}  // namespace

void embedding(const Queue& queue, const KernelCall& call) {
  const Tensor& table = call.inputs[0];
  const Tensor& y = call.outputs[0];
  int64_t width = table.columns();
  if (y.rows() == 0) {
    return;
  }
  with_type(y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_weight_type<T>(table.dtype, [&](auto weight_type) {
      using W = typename decltype(weight_type)::type;
      with_width<T>(width, [&](auto vector) {
        embedding_kernel<W, T, decltype(vector)::value>
            <<<static_cast<unsigned>(y.rows()), kThreads, 0, queue.stream>>>(
                table.as<W>(), call.inputs[1].as<int32_t>(), y.as<T>(), table.rows(), width,
                call.op.accumulates_output(0));
      });
    });
  });
  check_launch("looking up embeddings");
}

void embedding_backward(const Queue& queue, const KernelCall& call) {
  const Tensor& dy = call.inputs[1];
  const Tensor& dtable = call.outputs[0];
  int64_t width = dtable.columns();
  if (!call.op.accumulates_output(0)) {
    check(cudaMemsetAsync(dtable.data, 0, static_cast<size_t>(dtable.bytes()), queue.stream),
          "clearing a gradient");
  }
  if (dy.rows() == 0) {
    return;
  }
  with_type(dy.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_weight_type<T>(dtable.dtype, [&](auto gradient_type) {
      using G = typename decltype(gradient_type)::type;
      with_width<T>(width, [&](auto vector) {
        constexpr int kWidth = decltype(vector)::value;
        dim3 blocks(static_cast<unsigned>(dy.rows()), blocks_for(width, kThreads * kWidth));
        embedding_backward_kernel<T, G, kWidth><<<blocks, kThreads, 0, queue.stream>>>(
            call.inputs[0].as<int32_t>(), dy.as<T>(), dtable.as<G>(), dy.rows(), dtable.rows(), width);
      });
    });
  });
  check_launch("the gradient of embeddings");
}

}  // namespace snug::cuda
