// Attention and its gradients without tensor cores: fp32, and what the other kernels do not take (odd head
// sizes, rows that are not aligned to 16 bytes, bf16 on Turing). Written to be read; all arithmetic is fp32.
//
// A block of 128 threads owns 16 rows (queries, or keys for their gradients) of one head and walks the rows
// of the other side, 8 at a time. Thread (i, j) = (thread / 8, thread % 8) makes the score of owned row i and
// streamed row j; then the 8 threads of row i share its sums: thread j holds columns j, j + 8, ...
#include "backend/cuda/attention/bias_gradient.cuh"
#include "backend/cuda/attention/dropout.cuh"
#include "backend/cuda/attention/kernels.h"

namespace snug::cuda {
namespace {

constexpr int kOwned = 16;
constexpr int kStreamed = 8;
constexpr int kThreads = kOwned * kStreamed;
constexpr int kMaximumHeadDim = 256;
constexpr int kColumns = kMaximumHeadDim / kStreamed;  // a thread's, at most

// The pitch of a row in shared memory, odd so that rows start in different banks.
__host__ __device__ int pitch_of(const AttentionParameters& p) {
  return p.head_dim | 1;
}

int shared_bytes(const AttentionParameters& p, int rows) {
  return (rows * pitch_of(p) * 4 + 15) / 16 * 16;
}

// tile[rows, pitch] = rows of a matrix, zeros beyond `count`.
template <typename T>
__device__ void load(const AttentionParameters& p, float* tile, int rows, const T* data, int64_t stride,
                     int count) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * p.head_dim; i += kThreads) {
    int row = i / p.head_dim;
    int column = i % p.head_dim;
    tile[row * pitch_of(p) + column] = row < count ? as_float(data[row * stride + column]) : 0.0F;
  }
}

__device__ float dot(const float* a, const float* b, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    sum = fmaf(a[i], b[i], sum);
  }
  return sum;
}

// sums[j + 8 * n] += sum over streamed rows r of weight(r) * tile[r, j + 8 * n]; thread r of the 8 has
// weight(r).
__device__ void add_weighted(const AttentionParameters& p, float (&sums)[kColumns], float weight,
                             const float* tile) {
  int j = static_cast<int>(threadIdx.x) % kStreamed;
  for (int r = 0; r < kStreamed; ++r) {
    float w = __shfl_sync(0xffffffffU, weight, r, kStreamed);
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      if (j + kStreamed * n < p.head_dim) {
        sums[n] = fmaf(w, tile[r * pitch_of(p) + j + kStreamed * n], sums[n]);
      }
    }
  }
}

template <typename T>
__device__ void store(const AttentionParameters& p, const float (&sums)[kColumns], T* row, float factor) {
  int j = static_cast<int>(threadIdx.x) % kStreamed;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    if (j + kStreamed * n < p.head_dim) {
      row[j + kStreamed * n] = from_float<T>(sums[n] * factor);
    }
  }
}

template <typename T>
__device__ const T* head_rows(const void* data, int64_t row, int64_t stride, int64_t column) {
  return static_cast<const T*>(data) + row * stride + column;
}

// The score in powers of two; -inf if the query does not see the key.
template <typename T>
__device__ float score_of(const AttentionArguments& a, float product, int relative, int head) {
  float score = product * a.scale_log2;
  if (a.p.bias != nullptr) {
    score += kLog2E * as_float(static_cast<const T*>(a.p.bias)[bucket_of(a, relative) * a.p.heads + head]);
  }
  return relative >= a.lowest && relative <= a.highest ? score : -INFINITY;
}

// The tile of keys and values from `first` on, for a query head, once nobody reads the one before.
template <typename T>
__device__ void load_keys(const AttentionArguments& a, const Work& work, int first, float* k, float* v) {
  int64_t column = static_cast<int64_t>(work.head / a.group) * a.p.head_dim;
  int64_t row = work.key_row + first;
  int count = work.keys - first;
  __syncthreads();
  load(a.p, k, kStreamed, head_rows<T>(a.p.k, row, a.p.kv_stride, column), a.p.kv_stride, count);
  load(a.p, v, kStreamed, head_rows<T>(a.p.v, row, a.p.kv_stride, column), a.p.kv_stride, count);
  __syncthreads();
}

// o [T, heads * head_dim], lse [T, heads], both written.
template <typename T, bool kDropout>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(16) float plain_shared[];
  Work work;
  if (!find_query_work(a, kOwned, work)) {
    return;
  }
  int i = static_cast<int>(threadIdx.x) / kStreamed;
  int j = static_cast<int>(threadIdx.x) % kStreamed;
  int pitch = pitch_of(a.p);
  float* q = plain_shared;
  float* k = q + kOwned * pitch;
  float* v = k + kStreamed * pitch;
  int64_t column = static_cast<int64_t>(work.head) * a.p.head_dim;
  int64_t row = work.query_row + work.first;
  load(a.p, q, kOwned, head_rows<T>(a.p.q, row, a.p.q_stride, column), a.p.q_stride,
       work.queries - work.first);
  float sums[kColumns] = {};
  float maximum = -INFINITY;
  float total = 0;
  Range keys = keys_of_queries(a, work, kOwned);
  for (int first = keys.first; first < keys.last; first += kStreamed) {
    load_keys<T>(a, work, first, k, v);
    float score = score_of<T>(a, dot(q + i * pitch, k + j * pitch, a.p.head_dim),
                              first + j - (work.first + i + work.shift), work.head);
    score = first + j < work.keys ? score : -INFINITY;
    float largest = score;
    for (int step = 1; step < kStreamed; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, step));
    }
    largest = fmaxf(largest, maximum);
    float subtract = largest == -INFINITY ? 0.0F : largest;
    float weight = exp2f(score - subtract);
    float correction = exp2f(maximum - subtract);
    maximum = largest;
    total = total * correction + weight;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      sums[n] *= correction;
    }
    if constexpr (kDropout) {
      weight *= WeightMask(a).factor(static_cast<int>(row) + i, work.head, first + j);
    }
    add_weighted(a.p, sums, weight, v);
  }
  for (int step = 1; step < kStreamed; step *= 2) {
    total += __shfl_xor_sync(0xffffffffU, total, step);
  }
  if (work.first + i < work.queries) {
    int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
    store(a.p, sums, static_cast<T*>(a.p.o) + (row + i) * width + column,
          total == 0.0F ? 0.0F : 1.0F / total);
    if (j == 0) {
      a.p.lse[(row + i) * a.p.heads + work.head] =
          total == 0.0F ? -INFINITY : (maximum + log2f(total)) * kLn2;
    }
  }
}

// dq = scale * dscores k, and the tile's partial sums of dscores by bucket.
template <typename T, bool kDropout>
__global__ void __launch_bounds__(kThreads) queries_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(16) float plain_shared[];
  Work work;
  if (!find_query_work(a, kOwned, work)) {
    clear_bias_partial(a, work.slot, work.head);
    return;
  }
  int thread = static_cast<int>(threadIdx.x);
  int i = thread / kStreamed;
  int j = thread % kStreamed;
  int pitch = pitch_of(a.p);
  float* q = plain_shared;
  float* dout = q + kOwned * pitch;
  float* k = dout + kOwned * pitch;
  float* v = k + kStreamed * pitch;
  BiasGradient<kThreads> dbias;
  if (a.p.dbias != nullptr) {
    int tile_bytes = ((2 * kOwned + 2 * kStreamed) * pitch * 4 + 15) / 16 * 16;
    dbias.start(a, reinterpret_cast<unsigned char*>(plain_shared) + tile_bytes, thread);
  }
  int64_t column = static_cast<int64_t>(work.head) * a.p.head_dim;
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  int64_t row = work.query_row + work.first;
  int count = work.queries - work.first;
  load(a.p, q, kOwned, head_rows<T>(a.p.q, row, a.p.q_stride, column), a.p.q_stride, count);
  load(a.p, dout, kOwned, head_rows<T>(a.p.dout, row, width, column), width, count);
  float2 mine = i < count ? a.rows[work.head * a.p.queries + row + i] : make_float2(INFINITY, 0);
  float sums[kColumns] = {};
  Range keys = keys_of_queries(a, work, kOwned);
  for (int first = keys.first; first < keys.last; first += kStreamed) {
    load_keys<T>(a, work, first, k, v);
    int relative = first + j - (work.first + i + work.shift);
    float score = score_of<T>(a, dot(q + i * pitch, k + j * pitch, a.p.head_dim), relative, work.head);
    float weight = first + j < work.keys ? exp2f(score - mine.x) : 0.0F;
    float dweight = dot(dout + i * pitch, v + j * pitch, a.p.head_dim);
    if constexpr (kDropout) {
      dweight *= WeightMask(a).factor(static_cast<int>(row) + i, work.head, first + j);
    }
    float dscore = weight * (dweight - mine.y);
    if (a.p.dbias != nullptr) {
      dbias.add_one(a, dscore, relative, thread);
    }
    add_weighted(a.p, sums, dscore, k);
  }
  if (i < count) {
    store(a.p, sums, static_cast<T*>(a.p.dq) + (row + i) * a.p.dq_stride + column, a.p.scale);
  }
  if (a.p.dbias != nullptr) {
    __syncthreads();
    dbias.finish(a, bias_partial(a, work.slot, work.head), thread);
  }
}

// dv = p^T do, dk = scale * dscores^T q, over all query heads of the group in order.
template <typename T, bool kDropout>
__global__ void __launch_bounds__(kThreads) keys_kernel(const __grid_constant__ AttentionArguments a) {
  extern __shared__ __align__(16) float plain_shared[];
  Work work;
  if (!find_key_work(a, kOwned, static_cast<int>(blockIdx.x), work)) {
    return;
  }
  int i = static_cast<int>(threadIdx.x) / kStreamed;
  int j = static_cast<int>(threadIdx.x) % kStreamed;
  int pitch = pitch_of(a.p);
  float* k = plain_shared;
  float* v = k + kOwned * pitch;
  float* q = v + kOwned * pitch;
  float* dout = q + kStreamed * pitch;
  int64_t kv_column = static_cast<int64_t>(work.head) * a.p.head_dim;
  int64_t width = static_cast<int64_t>(a.p.heads) * a.p.head_dim;
  int64_t row = work.key_row + work.first;
  int count = work.keys - work.first;
  load(a.p, k, kOwned, head_rows<T>(a.p.k, row, a.p.kv_stride, kv_column), a.p.kv_stride, count);
  load(a.p, v, kOwned, head_rows<T>(a.p.v, row, a.p.kv_stride, kv_column), a.p.kv_stride, count);
  float dk[kColumns] = {};
  float dv[kColumns] = {};
  Range queries = queries_of_keys(a, work, kOwned);
  for (int head = work.head * a.group; head < (work.head + 1) * a.group; ++head) {
    int64_t column = static_cast<int64_t>(head) * a.p.head_dim;
    for (int first = queries.first; first < queries.last; first += kStreamed) {
      __syncthreads();
      int64_t query = work.query_row + first;
      int left = work.queries - first;
      load(a.p, q, kStreamed, head_rows<T>(a.p.q, query, a.p.q_stride, column), a.p.q_stride, left);
      load(a.p, dout, kStreamed, head_rows<T>(a.p.dout, query, width, column), width, left);
      __syncthreads();
      float2 theirs = j < left ? a.rows[head * a.p.queries + query + j] : make_float2(INFINITY, 0);
      int relative = work.first + i - (first + j + work.shift);
      float score = score_of<T>(a, dot(k + i * pitch, q + j * pitch, a.p.head_dim), relative, head);
      float weight = i < count ? exp2f(score - theirs.x) : 0.0F;
      float dweight = dot(v + i * pitch, dout + j * pitch, a.p.head_dim);
      float kept = 1;
      if constexpr (kDropout) {
        kept = WeightMask(a).factor(static_cast<int>(query) + j, head, work.first + i);
      }
      float dscore = weight * (dweight * kept - theirs.y);
      add_weighted(a.p, dv, weight * kept, dout);
      add_weighted(a.p, dk, dscore, q);
    }
  }
  if (i < count) {
    int64_t at = (row + i) * a.p.dkv_stride + kv_column;
    store(a.p, dk, static_cast<T*>(a.p.dk) + at, a.p.scale);
    store(a.p, dv, static_cast<T*>(a.p.dv) + at, 1.0F);
  }
}

LaunchShape query_shape(const AttentionArguments& a, int bytes) {
  return {tile_slots(a.p.queries, a.p.sequences, kOwned) * a.p.heads, kThreads, bytes};
}

// Calls launch(T{}, dropout) with the arguments' type of numbers and whether weights are dropped, as a
// constant.
template <typename Launch>
cudaError_t for_arguments(const AttentionArguments& a, const Launch& launch) {
  if (a.p.number != AttentionNumber::f32) {
    return for_half_precision(a, launch);
  }
  return a.p.random == nullptr ? launch(float{}, std::false_type{}) : launch(float{}, std::true_type{});
}

}  // namespace

cudaError_t plain_forward(const AttentionArguments& a, cudaStream_t stream) {
  LaunchShape shape = query_shape(a, shared_bytes(a.p, kOwned + 2 * kStreamed));
  return for_arguments(a, [&](auto number, auto dropout) {
    return launch_attention(forward_kernel<decltype(number), decltype(dropout)::value>, a, shape, stream);
  });
}

cudaError_t plain_backward_queries(const AttentionArguments& a, cudaStream_t stream) {
  LaunchShape shape =
      query_shape(a, shared_bytes(a.p, 2 * kOwned + 2 * kStreamed) + BiasGradient<kThreads>::bytes(a.p));
  cudaError_t status = for_arguments(a, [&](auto number, auto dropout) {
    return launch_attention(queries_kernel<decltype(number), decltype(dropout)::value>, a, shape, stream);
  });
  if (status != cudaSuccess || a.p.dbias == nullptr) {
    return status;
  }
  return reduce_bias_gradient(a, tile_slots(a.p.queries, a.p.sequences, kOwned), stream);
}

cudaError_t plain_backward_keys(const AttentionArguments& a, cudaStream_t stream) {
  LaunchShape shape{tile_slots(a.p.keys, a.p.sequences, kOwned) * a.p.kv_heads, kThreads,
                    shared_bytes(a.p, 2 * kOwned + 2 * kStreamed)};
  return for_arguments(a, [&](auto number, auto dropout) {
    return launch_attention(keys_kernel<decltype(number), decltype(dropout)::value>, a, shape, stream);
  });
}

}  // namespace snug::cuda
