// Attention's launchers: checks and the choice of kernels.
#include <algorithm>

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
    a.keep_limit = keep_limit(p.dropout);
    a.kept_scale = kept_scale(p.dropout);
  }
  AttentionWorkspace parts = attention_workspace(p);
  auto* workspace = static_cast<std::byte*>(p.workspace);
  a.rows = static_cast<float2*>(p.workspace);
  a.bias_partials = reinterpret_cast<float*>(workspace + parts.bias_at);
  if (parts.dq_at > 0) {
    a.turns = reinterpret_cast<int32_t*>(workspace + parts.turns_at);
    a.key_tiles = reinterpret_cast<int2*>(workspace + parts.key_tiles_at);
    a.dq_sums = reinterpret_cast<float*>(workspace + parts.dq_at);
    a.dkv_sums = reinterpret_cast<float4*>(workspace + parts.dkv_at);
    a.dkv_bytes = parts.dkv_bytes;
    a.sum_slots = static_cast<int>(tile_slots(p.queries, p.sequences, kGradientSumRows));
  }
  return a;
}

bool is_aligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

cudaError_t find_card(const AttentionParameters& p, Card& card) {
  int device = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status =
        cudaDeviceGetAttribute(&card.shared_limit_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&card.processors, cudaDevAttrMultiProcessorCount, device);
  }
  cudaFuncAttributes attributes{};
  if (status == cudaSuccess) {
    status = attributes_of_built_code(attributes);
  }
  card.has_bf16 = attributes.ptxVersion >= 80;
  if (p.shared_limit_bytes > 0) {
    card.shared_limit_bytes =
        static_cast<int>(std::min<int64_t>(card.shared_limit_bytes, p.shared_limit_bytes));
  }
  return status;
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

}  // namespace

cudaError_t attention_forward(const AttentionParameters& p, cudaStream_t stream) {
  Card card;
  cudaError_t status = find_card(p, card);
  if (status != cudaSuccess) {
    return status;
  }
  AttentionArguments a = make_arguments(p);
  if (!fits_tensor_cores(p, card)) {
    return plain_forward(a, stream);
  }
  if (!p.without_hopper && hopper_forward(a, stream, status)) {
    return status;
  }
  return tensor_core_forward(a, card.shared_limit_bytes, stream);
}

cudaError_t attention_backward(const AttentionParameters& p, cudaStream_t stream) {
  Card card;
  cudaError_t status = find_card(p, card);
  if (status != cudaSuccess) {
    return status;
  }
  AttentionArguments a = make_arguments(p);
  bool tensor_cores = fits_tensor_cores(p, card);
  if (tensor_cores && !p.without_hopper && hopper_backward(a, stream, status)) {
    return status;
  }
  if (tensor_cores && one_pass_backward(a, card, stream, status)) {
    return status;
  }
  status = make_rows(a, stream);
  if (status == cudaSuccess && p.dq != nullptr) {
    status = tensor_cores ? tensor_core_backward_queries(a, card.shared_limit_bytes, stream)
                          : plain_backward_queries(a, stream);
  }
  if (status == cudaSuccess && p.dk != nullptr) {
    status = tensor_cores ? tensor_core_backward_keys(a, card.shared_limit_bytes, stream)
                          : plain_backward_keys(a, stream);
  }
  return status;
}

}  // namespace snug::cuda
