// Attention's launchers: checks, the choice of kernels, and the small kernels around them.
#include <algorithm>
#include <cmath>

#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/attention/launch.h"
#include "backend/dropout_mask.h"
#include "backend/relative_bucket.h"

namespace snug::cuda {
namespace {

// The distances at which T5's buckets of one side start.
void fill_buckets(AttentionArguments& a) {
  const RelativeBuckets all{a.p.buckets, a.p.max_distance, a.p.bidirectional_buckets};
  a.side_buckets = all.bidirectional ? a.p.buckets / 2 : a.p.buckets;
  int next = 0;
  for (int distance = 0; distance <= a.p.max_distance && next < a.side_buckets; ++distance) {
    auto bucket = static_cast<int>(relative_bucket(all, -distance));
    for (; next <= bucket; ++next) {
      a.starts[next] = static_cast<int16_t>(distance);
    }
  }
}

AttentionArguments make_arguments(const AttentionParameters& p) {
  AttentionArguments a;
  a.p = p;
  a.scale_log2 = p.scale * kLog2E;
  a.group = p.heads / p.kv_heads;
  a.highest = p.causal ? 0 : kFar;
  a.lowest = p.window > 0 ? 1 - static_cast<int>(std::min<int64_t>(p.window, kFar)) : -kFar;
  if (p.bias != nullptr) {
    fill_buckets(a);
  }
  if (p.random != nullptr) {
    // The 24 high bits as a fraction are at least p.
    a.keep_limit = static_cast<uint32_t>(std::ceil(p.dropout * 0x1p24F)) << 8;
    a.kept_scale = kept_scale(p.dropout);
  }
  a.rows = static_cast<float2*>(p.workspace);
  a.bias_partials = reinterpret_cast<float*>(static_cast<std::byte*>(p.workspace) + attention_rows_bytes(p));
  return a;
}

bool is_aligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// rows[head, t] = (lse * log2(e), sum(o * do)), 8 threads a row and head. A query without keys gets +inf, so
// that its weights become zero.
template <typename T>
__global__ void rows_kernel(const __grid_constant__ AttentionArguments a) {
  int64_t item = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 8;
  int part = static_cast<int>(threadIdx.x) % 8;
  bool inside = item < a.p.queries * a.p.heads && item / a.p.heads < a.p.q_offsets[a.p.sequences];
  float sum = 0;
  if (inside) {
    const T* o = static_cast<const T*>(a.p.o) + item * a.p.head_dim;
    const T* dout = static_cast<const T*>(a.p.dout) + item * a.p.head_dim;
    if (sizeof(T) == 2 && reinterpret_cast<uintptr_t>(o) % 16 == 0 &&
        reinterpret_cast<uintptr_t>(dout) % 16 == 0 && a.p.head_dim % 8 == 0) {
      for (int i = part * 8; i < a.p.head_dim; i += 64) {
        uint4 left = *reinterpret_cast<const uint4*>(o + i);
        uint4 right = *reinterpret_cast<const uint4*>(dout + i);
        for (int e = 0; e < 8; ++e) {
          sum = fmaf(as_float(reinterpret_cast<const T*>(&left)[e]),
                     as_float(reinterpret_cast<const T*>(&right)[e]), sum);
        }
      }
    } else {
      for (int i = part; i < a.p.head_dim; i += 8) {
        sum = fmaf(as_float(o[i]), as_float(dout[i]), sum);
      }
    }
  }
  for (int step = 1; step < 8; step *= 2) {
    sum += __shfl_xor_sync(0xffffffffU, sum, step);
  }
  if (inside && part == 0) {
    float lse = a.p.lse[item];
    a.rows[item % a.p.heads * a.p.queries + item / a.p.heads] = {lse == -INFINITY ? INFINITY : lse * kLog2E,
                                                                 sum};
  }
}

// One warp a bucket and head; lane l adds tiles l, l + 32, ..., then the lanes are added in order.
template <typename T>
__global__ void bias_kernel(const __grid_constant__ AttentionArguments a, int64_t tiles) {
  int bucket = static_cast<int>(blockIdx.x) / a.p.heads;
  int head = static_cast<int>(blockIdx.x) % a.p.heads;
  float sum = 0;
  for (int64_t tile = threadIdx.x; tile < tiles; tile += 32) {
    sum += a.bias_partials[(tile * a.p.heads + head) * a.p.buckets + bucket];
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(0xffffffffU, sum, step);
  }
  if (threadIdx.x == 0) {
    T* to = static_cast<T*>(a.p.dbias) + bucket * a.p.heads + head;
    *to = from_float<T>(as_float(*to) + sum);
  }
}

cudaError_t make_rows(const AttentionArguments& a, cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  auto blocks = static_cast<unsigned>((a.p.queries * a.p.heads * 8 + kThreads - 1) / kThreads);
  if (a.p.number == AttentionNumber::f32) {
    rows_kernel<float><<<blocks, kThreads, 0, stream>>>(a);
  } else if (a.p.number == AttentionNumber::f16) {
    rows_kernel<__half><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    rows_kernel<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

struct Card {
  int shared_limit_bytes = 0;
  bool has_bf16 = false;  // tensor cores, in the code that was built
  cudaError_t status = cudaSuccess;
};

Card find_card(const AttentionParameters& p) {
  Card card;
  int device = 0;
  card.status = cudaGetDevice(&device);
  if (card.status == cudaSuccess) {
    card.status =
        cudaDeviceGetAttribute(&card.shared_limit_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  cudaFuncAttributes attributes{};
  if (card.status == cudaSuccess) {
    card.status = cudaFuncGetAttributes(&attributes, rows_kernel<float>);
  }
  card.has_bf16 = attributes.ptxVersion >= 80;
  if (p.shared_limit_bytes > 0) {
    card.shared_limit_bytes =
        static_cast<int>(std::min<int64_t>(card.shared_limit_bytes, p.shared_limit_bytes));
  }
  return card;
}

bool fits_tensor_cores(const AttentionParameters& p, const Card& card) {
  if (p.without_tensor_cores || p.number == AttentionNumber::f32 ||
      (p.number == AttentionNumber::bf16 && !card.has_bf16)) {
    return false;
  }
  bool rows = p.head_dim % 8 == 0 && p.q_stride % 8 == 0 && p.kv_stride % 8 == 0 && p.dq_stride % 2 == 0 &&
              p.dkv_stride % 2 == 0;
  return rows && is_aligned(p.q, 16) && is_aligned(p.k, 16) && is_aligned(p.v, 16) &&
         is_aligned(p.dout, 16) && is_aligned(p.o, 16) && is_aligned(p.dq, 4) && is_aligned(p.dk, 4) &&
         is_aligned(p.dv, 4);
}

// Hopper's kernels have no dropout.
bool may_use_hopper(const AttentionParameters& p) {
  return !p.without_hopper && p.random == nullptr;
}

}  // namespace

cudaError_t reduce_bias_gradient(const AttentionArguments& a, int64_t tiles, cudaStream_t stream) {
  auto blocks = static_cast<unsigned>(a.p.buckets * a.p.heads);
  if (a.p.dbias_is_f32 || a.p.number == AttentionNumber::f32) {
    bias_kernel<float><<<blocks, 32, 0, stream>>>(a, tiles);
  } else if (a.p.number == AttentionNumber::f16) {
    bias_kernel<__half><<<blocks, 32, 0, stream>>>(a, tiles);
  } else {
    bias_kernel<__nv_bfloat16><<<blocks, 32, 0, stream>>>(a, tiles);
  }
  return cudaGetLastError();
}

cudaError_t attention_forward(const AttentionParameters& p, cudaStream_t stream) {
  Card card = find_card(p);
  if (card.status != cudaSuccess) {
    return card.status;
  }
  AttentionArguments a = make_arguments(p);
  if (!fits_tensor_cores(p, card)) {
    return plain_forward(a, stream);
  }
  cudaError_t status = cudaSuccess;
  if (may_use_hopper(p) && hopper_forward(a, stream, status)) {
    return status;
  }
  return tensor_core_forward(a, card.shared_limit_bytes, stream);
}

cudaError_t attention_backward(const AttentionParameters& p, cudaStream_t stream) {
  Card card = find_card(p);
  if (card.status != cudaSuccess) {
    return card.status;
  }
  AttentionArguments a = make_arguments(p);
  bool tensor_cores = fits_tensor_cores(p, card);
  bool hopper = tensor_cores && may_use_hopper(p);
  cudaError_t status = make_rows(a, stream);
  if (status == cudaSuccess && p.dq != nullptr && !(hopper && hopper_backward_queries(a, stream, status))) {
    status = tensor_cores ? tensor_core_backward_queries(a, card.shared_limit_bytes, stream)
                          : plain_backward_queries(a, stream);
  }
  if (status == cudaSuccess && p.dk != nullptr && !(hopper && hopper_backward_keys(a, stream, status))) {
    status = tensor_cores ? tensor_core_backward_keys(a, card.shared_limit_bytes, stream)
                          : plain_backward_keys(a, stream);
  }
  return status;
}

}  // namespace snug::cuda
