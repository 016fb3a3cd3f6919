// One block a row of logits: a pass for maximum and sum, and one for the gradient. fp32 within a thread.
#include "backend/cuda/softmax_loss.h"

#include "backend/cuda/check.h"
#include "backend/cuda/instructions/numbers.cuh"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kSumThreads = 256;

// e^x. Where logits have 16 bits, the units' own power of two is more than exact enough, and a third of the
// work.
template <typename T>
__device__ inline float exponential(float x) {
  if constexpr (sizeof(T) == 4) {
    return expf(x);
  } else {
    constexpr float kLog2E = 1.44269504F;
    return power_of_two(x * kLog2E);
  }
}

// The running maximum of some logits, and the sum of exp(logit - maximum).
struct Softmax {
  float maximum = -INFINITY;
  float sum = 0;

  __device__ void add(float logit) {
    if (logit > maximum) {
      sum = sum * expf(maximum - logit) + 1.0F;
      maximum = logit;
    } else {
      sum += expf(logit - maximum);
    }
  }
  __device__ void add(const Softmax& other) {
    float larger = fmaxf(maximum, other.maximum);
    if (larger == -INFINITY) {
      return;
    }
    sum = sum * expf(maximum - larger) + other.sum * expf(other.maximum - larger);
    maximum = larger;
  }
};

// Over the whole row, in every thread.
template <typename T>
__device__ Softmax row_softmax(const T* row, int64_t vocabulary) {
  constexpr int N = kVector<T>;
  __shared__ Softmax shared[kThreads / 32];
  Softmax own;
  int64_t whole = vocabulary / N * N;
  for (int64_t i = threadIdx.x * N; i < whole; i += kThreads * N) {
    Vector<T, N> logits = load<N>(row + i);
    // One comparison a vector: the maximum rarely moves.
    float largest = to_float(logits.at[0]);
#pragma unroll
    for (int j = 1; j < N; ++j) {
      largest = fmaxf(largest, to_float(logits.at[j]));
    }
    if (largest > own.maximum) {
      own.sum *= expf(own.maximum - largest);
      own.maximum = largest;
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      own.sum += exponential<T>(to_float(logits.at[j]) - own.maximum);
    }
  }
  for (int64_t i = whole + threadIdx.x; i < vocabulary; i += kThreads) {
    own.add(to_float(row[i]));
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    Softmax other;
    other.maximum = __shfl_down_sync(0xffffffffU, own.maximum, offset);
    other.sum = __shfl_down_sync(0xffffffffU, own.sum, offset);
    own.add(other);
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = own;
  }
  __syncthreads();
  Softmax total = shared[0];
  for (int i = 1; i < kThreads / 32; ++i) {
    total.add(shared[i]);
  }
  return total;
}

__device__ double loss_of(const Softmax& softmax, float target_logit) {
  return static_cast<double>(softmax.maximum) + log(static_cast<double>(softmax.sum)) -
         static_cast<double>(target_logit);
}

template <typename T>
__device__ T* own_row(const LogitsChunk& chunk) {
  return static_cast<T*>(chunk.logits) + static_cast<int64_t>(blockIdx.x) * chunk.stride;
}

// A negative one: the row has none.
__device__ int32_t own_target(const LogitsChunk& chunk) {
  int32_t target = chunk.targets[blockIdx.x];
  if (target >= chunk.vocabulary) {
    __trap();
  }
  return target;
}

template <typename T>
__global__ void loss_kernel(LogitsChunk chunk) {
  int32_t target = own_target(chunk);
  if (target < 0) {
    if (threadIdx.x == 0) {
      chunk.losses[blockIdx.x] = 0;
    }
    return;
  }
  const T* row = own_row<T>(chunk);
  Softmax softmax = row_softmax(row, chunk.vocabulary);
  if (threadIdx.x == 0) {
    chunk.losses[blockIdx.x] = loss_of(softmax, to_float(row[target]));
  }
  if (chunk.hits != nullptr && to_float(row[target]) >= softmax.maximum) {  // the same in all threads
    int is_earlier = 0;  // one of equal logits, which greedy decoding would choose
    for (int64_t i = threadIdx.x; i < target; i += kThreads) {
      is_earlier |= to_float(row[i]) == softmax.maximum ? 1 : 0;
    }
    if (__syncthreads_or(is_earlier) == 0 && threadIdx.x == 0) {
      atomicAdd(chunk.hits, 1.0);  // whole numbers: the same sum in any order
    }
  }
}

template <typename T>
__global__ void gradient_kernel(LogitsChunk chunk, const float* scale_at) {
  constexpr int N = kVector<T>;
  int32_t target = own_target(chunk);
  T* row = own_row<T>(chunk);
  float scale = 0;
  float factor = 0;
  Softmax softmax;
  softmax.maximum = 0;
  if (target >= 0) {
    softmax = row_softmax(row, chunk.vocabulary);
    scale = scale_at[0];
    factor = scale / softmax.sum;
  }
  if (threadIdx.x == 0) {
    chunk.losses[blockIdx.x] = target < 0 ? 0.0 : loss_of(softmax, to_float(row[target]));
  }
  __syncthreads();
  // The stride is a multiple of N, so whole vectors may reach past the vocabulary into the row's padding.
  for (int64_t i = threadIdx.x * N; i < chunk.vocabulary; i += kThreads * N) {
    Vector<T, N> values = load<N>(row + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float value = target < 0 ? 0.0F : exponential<T>(to_float(values.at[j]) - softmax.maximum) * factor;
      values.at[j] = round_to<T>(i + j == target ? value - scale : value);
    }
    store<N>(row + i, values);
  }
}

__global__ void sum_kernel(const double* losses, int64_t count, double* loss, bool accumulate) {
  __shared__ double shared[kSumThreads];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kSumThreads) {
    sum += losses[i];
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned stride = kSumThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      shared[threadIdx.x] += shared[threadIdx.x + stride];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    loss[0] = accumulate ? loss[0] + shared[0] : shared[0];
  }
}

}  // namespace

void softmax_loss(cudaStream_t stream, const LogitsChunk& chunk) {
  with_type(chunk.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    loss_kernel<T><<<static_cast<unsigned>(chunk.rows), kThreads, 0, stream>>>(chunk);
  });
  check_launch("the loss");
}

void softmax_loss_gradient(cudaStream_t stream, const LogitsChunk& chunk, const float* scale) {
  with_type(chunk.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    gradient_kernel<T><<<static_cast<unsigned>(chunk.rows), kThreads, 0, stream>>>(chunk, scale);
  });
  check_launch("the gradient of the loss");
}

void sum_losses(cudaStream_t stream, const double* losses, int64_t count, double* loss, bool accumulate) {
  sum_kernel<<<1, kSumThreads, 0, stream>>>(losses, count, loss, accumulate);
  check_launch("adding up the losses");
}

}  // namespace snug::cuda
