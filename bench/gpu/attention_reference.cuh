// Attention and its gradients by the formula, in double: what the kernels are checked against. One thread a
// query and head; it shares no code with them, and finds T5's buckets the way Hugging Face writes them down.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/attention/launch.h"
#include "base/rng.h"

namespace snug::cuda {

// All in double; rows without gaps.
struct Reference {
  double* o;      // [T, heads * head_dim]
  double* lse;    // [T, heads]
  double* dq;     // [T, heads * head_dim]
  double* dk;     // [Tk, kv_heads * head_dim]
  double* dv;     // [Tk, kv_heads * head_dim]
  double* dbias;  // [buckets, heads]
};

__device__ inline double number_at(const AttentionParameters& p, const void* data, int64_t i) {
  if (p.number == AttentionNumber::f32) {
    return static_cast<const float*>(data)[i];
  }
  return p.number == AttentionNumber::f16 ? __half2float(static_cast<const __half*>(data)[i])
                                          : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}

__device__ inline int reference_bucket(const AttentionParameters& p, int relative) {
  int buckets = p.buckets;
  int result = 0;
  if (p.bidirectional_buckets) {
    buckets /= 2;
    result = relative > 0 ? buckets : 0;
    relative = relative < 0 ? -relative : relative;
  } else {
    relative = relative < 0 ? -relative : 0;
  }
  int exact = buckets / 2;
  if (relative < exact) {
    return result + relative;
  }
  // A hair above, as whole numbers of the logarithm belong to the bucket they start.
  double share =
      log(static_cast<double>(relative) / exact) / log(static_cast<double>(p.max_distance) / exact);
  int large = exact + static_cast<int>(share * (buckets - exact) + 1e-7);
  return result + (large < buckets - 1 ? large : buckets - 1);
}

struct ReferenceQuery {
  const AttentionParameters& p;
  int64_t row;      // of q
  int64_t key_row;  // of the sequence's first key
  int64_t keys;
  int64_t position;
  int head;

  __device__ bool sees(int64_t j) const {
    return (!p.causal || j <= position) && (p.window == 0 || j > position - p.window);
  }
  __device__ int64_t kv(int64_t j, int d, int64_t stride) const {
    return (key_row + j) * stride + static_cast<int64_t>(head / (p.heads / p.kv_heads)) * p.head_dim + d;
  }
  __device__ int64_t out(int d) const { return (row * p.heads + head) * p.head_dim + d; }
  // What the weight of key j is multiplied with: backend/dropout_mask.h.
  __device__ double kept(int64_t j) const {
    if (p.random == nullptr) {
      return 1;
    }
    auto element = static_cast<uint64_t>(((p.random[2] + row) * p.heads + head) * (1 << 24) + j);
    auto words = philox<7>(static_cast<uint64_t>(p.random[0]),
                           p.dropout_stream ^ snug::mix(static_cast<uint64_t>(p.random[1])), element / 8);
    uint32_t word = words[element % 8 / 2];
    uint32_t half = element % 2 == 0 ? word & 0xFFFF : word >> 16;
    double probability = p.dropout;
    return half >= rint(probability * 65536) ? 1 / (1 - probability) : 0;
  }
  __device__ double score(int64_t j) const {
    double sum = 0;
    for (int d = 0; d < p.head_dim; ++d) {
      sum += number_at(p, p.q, row * p.q_stride + static_cast<int64_t>(head) * p.head_dim + d) *
             number_at(p, p.k, kv(j, d, p.kv_stride));
    }
    sum *= p.scale;
    if (p.bias != nullptr) {
      sum += number_at(
          p, p.bias,
          static_cast<int64_t>(reference_bucket(p, static_cast<int>(j - position))) * p.heads + head);
    }
    return sum;
  }
};

__device__ inline void reference_forward(const ReferenceQuery& query, const Reference& to) {
  const AttentionParameters& p = query.p;
  double largest = -INFINITY;
  for (int64_t j = 0; j < query.keys; ++j) {
    largest = query.sees(j) ? fmax(largest, query.score(j)) : largest;
  }
  double sum = 0;
  for (int64_t j = 0; j < query.keys; ++j) {
    if (query.sees(j)) {
      double weight = exp(query.score(j) - largest);
      sum += weight;
      for (int d = 0; d < p.head_dim; ++d) {
        to.o[query.out(d)] += weight * query.kept(j) * number_at(p, p.v, query.kv(j, d, p.kv_stride));
      }
    }
  }
  for (int d = 0; d < p.head_dim && sum > 0; ++d) {
    to.o[query.out(d)] /= sum;
  }
  to.lse[query.row * p.heads + query.head] = sum > 0 ? largest + log(sum) : -INFINITY;
}

__device__ inline void reference_backward(const ReferenceQuery& query, const Reference& to) {
  const AttentionParameters& p = query.p;
  int64_t kv_stride = static_cast<int64_t>(p.kv_heads) * p.head_dim;
  double delta = 0;
  for (int d = 0; d < p.head_dim; ++d) {
    delta += to.o[query.out(d)] * number_at(p, p.dout, query.out(d));
  }
  for (int64_t j = 0; j < query.keys; ++j) {
    if (!query.sees(j)) {
      continue;
    }
    double weight = exp(query.score(j) - to.lse[query.row * p.heads + query.head]);
    double kept = query.kept(j);
    double dweight = 0;
    for (int d = 0; d < p.head_dim; ++d) {
      double dout = number_at(p, p.dout, query.out(d));
      dweight += kept * dout * number_at(p, p.v, query.kv(j, d, p.kv_stride));
      atomicAdd(&to.dv[query.kv(j, d, kv_stride)], weight * kept * dout);
    }
    double dscore = weight * (dweight - delta);
    for (int d = 0; d < p.head_dim; ++d) {
      int64_t q = query.row * p.q_stride + static_cast<int64_t>(query.head) * p.head_dim + d;
      to.dq[query.out(d)] += p.scale * dscore * number_at(p, p.k, query.kv(j, d, p.kv_stride));
      atomicAdd(&to.dk[query.kv(j, d, kv_stride)], p.scale * dscore * number_at(p, p.q, q));
    }
    if (p.bias != nullptr) {
      int bucket = reference_bucket(p, static_cast<int>(j - query.position));
      atomicAdd(&to.dbias[bucket * p.heads + query.head], dscore);
    }
  }
}

// All of `to` zero before.
static __global__ void reference_kernel(AttentionParameters p, Reference to) {
  int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= static_cast<int64_t>(p.q_offsets[p.sequences]) * p.heads) {
    return;
  }
  int64_t row = item / p.heads;
  int sequence = 0;
  while (p.q_offsets[sequence + 1] <= row) {
    ++sequence;
  }
  int64_t queries = p.q_offsets[sequence + 1] - p.q_offsets[sequence];
  int64_t keys = p.kv_offsets[sequence + 1] - p.kv_offsets[sequence];
  ReferenceQuery query{p,
                       row,
                       p.kv_offsets[sequence],
                       keys,
                       row - p.q_offsets[sequence] + keys - queries,
                       static_cast<int>(item % p.heads)};
  reference_forward(query, to);
  reference_backward(query, to);
}

}  // namespace snug::cuda
