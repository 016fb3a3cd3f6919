// Looking up rows of a table, and adding gradients to them.
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumnsEach = 4;  // of a gradient's row, per thread

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

// The tokens among [first, first + kThreads) that have this id, in order. `found` gets them; returns how
// many.
__device__ int find_tokens(const int32_t* ids, int64_t first, int64_t tokens, int32_t id, int* found,
                           int* counts) {
  int64_t token = first + threadIdx.x;
  bool match = token < tokens && ids[token] == id;
  unsigned votes = __ballot_sync(0xffffffffU, match);
  int lane = static_cast<int>(threadIdx.x) % 32;
  int warp = static_cast<int>(threadIdx.x) / 32;
  if (lane == 0) {
    counts[warp] = __popc(votes);
  }
  __syncthreads();
  int before = 0;
  int total = 0;
  for (int i = 0; i < kThreads / 32; ++i) {
    before += i < warp ? counts[i] : 0;
    total += counts[i];
  }
  if (match) {
    found[before + __popc(votes & ((1U << lane) - 1U))] = static_cast<int>(token);
  }
  __syncthreads();
  return total;
}

// dtable[ids[t]] += dy[t], summed in fp32 and rounded once to the dtype `G` of the gradient. The block of a
// row's first token adds up all tokens of that row, in their order; the blocks of the others have nothing to
// do. Blocks: (tokens, columns).
template <typename T, typename G>
__global__ void embedding_backward_kernel(const int32_t* ids, const T* dy, G* dtable, int64_t tokens,
                                          int64_t vocabulary, int64_t width) {
  __shared__ int found[kThreads];
  __shared__ int counts[kThreads / 32];
  int64_t own = blockIdx.x;
  int32_t id = ids[own];
  if (id < 0 || id >= vocabulary) {
    __trap();
  }
  bool seen = false;
  for (int64_t token = threadIdx.x; token < own; token += kThreads) {
    seen = seen || ids[token] == id;
  }
  if (__syncthreads_or(seen ? 1 : 0) != 0) {
    return;
  }
  int64_t column = static_cast<int64_t>(blockIdx.y) * kThreads * kColumnsEach + threadIdx.x;
  float sums[kColumnsEach] = {};
  for (int64_t first = own; first < tokens; first += kThreads) {
    int count = find_tokens(ids, first, tokens, id, found, counts);
    for (int i = 0; i < count; ++i) {
      const T* row = dy + static_cast<int64_t>(found[i]) * width;
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j) {
        if (column + j * kThreads < width) {
          sums[j] += to_float(row[column + j * kThreads]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < kColumnsEach; ++j) {
    if (column + j * kThreads < width) {
      G& destination = dtable[id * width + column + j * kThreads];
      destination = round_to<G>(to_float(destination) + sums[j]);
    }
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
  dim3 blocks(static_cast<unsigned>(dy.rows()), blocks_for(width, kThreads * kColumnsEach));
  with_type(dy.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_weight_type<T>(dtable.dtype, [&](auto gradient_type) {
      using G = typename decltype(gradient_type)::type;
      embedding_backward_kernel<T, G><<<blocks, kThreads, 0, queue.stream>>>(
          call.inputs[0].as<int32_t>(), dy.as<T>(), dtable.as<G>(), dy.rows(), dtable.rows(), width);
    });
  });
  check_launch("the gradient of embeddings");
}

}  // namespace snug::cuda
