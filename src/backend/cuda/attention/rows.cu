// The small kernels around attention's gradients: what they start from, and what is added up or rounded after
// them.
#include "backend/cuda/attention/kernels.h"
#include "backend/cuda/attention/tiles.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_of(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

// rows[head, t] = (lse * log2(e), sum(o * do)), 8 threads a row and head. A query without keys gets +inf, so
// that its weights become zero; where the gradient's kernel rounds dq, it might come by none of its queries,
// so its dq is written here.
template <typename T>
__device__ inline void make_row(const AttentionArguments& a, int64_t thread) {
  int64_t item = thread / 8;
  int part = static_cast<int>(threadIdx.x) % 8;
  bool inside = item < a.p.queries * a.p.heads && item / a.p.heads < a.p.q_offsets[a.p.sequences];
  float sum = 0;
  if (inside) {
    const T* o = static_cast<const T*>(a.p.o) + item * a.p.head_dim;
    const T* dout = static_cast<const T*>(a.p.dout) + item * a.p.head_dim;
    if (sizeof(T) == 2 && reinterpret_cast<uintptr_t>(o) % 16 == 0 &&
        reinterpret_cast<uintptr_t>(dout) % 16 == 0 && a.p.head_dim % 8 == 0) {
      // Both halves of a head of 128 are asked for before either is used.
      for (int i = part * 8; i < a.p.head_dim; i += 128) {
        uint4 left[2] = {};
        uint4 right[2] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (i + 64 * half < a.p.head_dim) {
            left[half] = *reinterpret_cast<const uint4*>(o + i + 64 * half);
            right[half] = *reinterpret_cast<const uint4*>(dout + i + 64 * half);
          }
        }
#pragma unroll
        for (int e = 0; e < 16; ++e) {
          sum = fmaf(as_float(reinterpret_cast<const T*>(&left[e / 8])[e % 8]),
                     as_float(reinterpret_cast<const T*>(&right[e / 8])[e % 8]), sum);
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
  if (!inside) {
    return;
  }
  float lse = a.p.lse[item];
  if (a.rounds_dq && lse == -INFINITY) {
    T* dq = static_cast<T*>(a.p.dq) + item / a.p.heads * a.p.dq_stride + item % a.p.heads * a.p.head_dim;
    for (int i = part; i < a.p.head_dim; i += 8) {
      dq[i] = from_float<T>(0);
    }
  }
  if (part == 0) {
    a.rows[item % a.p.heads * a.p.queries + item / a.p.heads] = {lse == -INFINITY ? INFINITY : lse * kLog2E,
                                                                 sum};
  }
}

__device__ inline int key_tiles_of(const AttentionArguments& a, int sequence) {
  return (a.p.kv_offsets[sequence + 1] - a.p.kv_offsets[sequence] + a.tile_keys - 1) / a.tile_keys;
}

// Puts the key tile of one slot where it belongs in the order of work: the sequences of a batch together, and
// of those the tiles with the most tiles after them in their sequence first, which in causal attention have
// the most queries. So the tiles of a sequence stay in order. Places beyond the last tile get -1.
__device__ inline void place_key_tile(const AttentionArguments& a, int slot) {
  int low = 0;
  int high = static_cast<int>(a.p.sequences);
  while (high - low > 1) {
    int middle = (low + high) / 2;
    bool before = a.p.kv_offsets[middle] / a.tile_keys + middle <= slot;
    low = before ? middle : low;
    high = before ? high : middle;
  }
  int tile = slot - a.p.kv_offsets[low] / a.tile_keys - low;
  int left = key_tiles_of(a, low) - tile;
  int total = 0;
  int place = 0;
  for (int s = 0; s < a.p.sequences; ++s) {
    int tiles = key_tiles_of(a, s);
    total += tiles;
    if (s / a.batch_sequences < low / a.batch_sequences) {
      place += tiles;
    } else if (s / a.batch_sequences == low / a.batch_sequences) {
      place += max(0, tiles - left) + static_cast<int>(s < low && tiles >= left);
    }
  }
  if (left > 0) {
    a.key_tiles[place] = make_int2(low, tile);
  }
  if (slot >= total) {
    a.key_tiles[slot] = make_int2(-1, 0);
  }
}

// The first `order_blocks` blocks clear the turns and make the order of work, the others make the rows.
template <typename T>
__global__ void rows_kernel(const __grid_constant__ AttentionArguments a, int order_blocks, int slots) {
  let_next_kernel_start();
  int block = static_cast<int>(blockIdx.x);
  int thread = block * kThreads + static_cast<int>(threadIdx.x);
  if (block >= order_blocks) {
    make_row<T>(a, static_cast<int64_t>(block - order_blocks) * kThreads + threadIdx.x);
    return;
  }
  int turns = a.p.heads * a.query_tiles + (a.tile_blocks > 1 ? 2 * a.p.kv_heads * slots : 0);
  for (int i = thread; i < turns; i += order_blocks * kThreads) {
    a.turns[i] = 0;
  }
  if (thread < slots) {
    place_key_tile(a, thread);
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

// A warp takes a slot of 8 queries of one head: sums as the lanes held them, where lane l has row l / 4 and
// columns 2 * (l % 4) and the next. Queries that no key tile has added to see no keys.
template <typename T, int kHeadDim>
__global__ void round_kernel(const __grid_constant__ AttentionArguments a) {
  int64_t warp = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x & 31);
  int head = static_cast<int>(warp / a.sum_slots);
  Work work;
  if (head >= a.p.heads ||
      !find_work(a, static_cast<int>(warp % a.sum_slots), kGradientSumRows, true, work)) {
    return;
  }
  int row = work.first + lane / 4;
  int sequence = work.slot - work.query_row / kGradientSumRows - work.first / kGradientSumRows;
  int tile = work.query_row / a.tile_queries + sequence + work.first / a.tile_queries;
  float factor = a.turns[static_cast<int64_t>(head) * a.query_tiles + tile] == 0 ? 0.0F : a.p.scale;
  const float* from = a.dq_sums + warp * (kGradientSumRows * kHeadDim);
  T* to = row < work.queries ? static_cast<T*>(a.p.dq) + (work.query_row + row) * a.p.dq_stride +
                                   static_cast<int64_t>(head) * a.p.head_dim
                             : nullptr;
  float2 sums[kHeadDim / 8];
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
    if (factor == 0.0F) {
      sums[n] = make_float2(0, 0);
    } else if (a.pairs_apart) {
      sums[n] = make_float2(__ldcs(from + n * 64 + lane), __ldcs(from + n * 64 + 32 + lane));
    } else {
      sums[n] = __ldcs(reinterpret_cast<const float2*>(from + n * 64) + lane);
    }
  }
  store_query_slot<T>(a, sums, to, factor);
}

}  // namespace

void set_gradient_tiles(AttentionArguments& a, int keys, int queries) {
  a.tile_keys = keys;
  a.tile_queries = queries;
  a.query_tiles = static_cast<int>(tile_slots(a.p.queries, a.p.sequences, queries));
}

cudaError_t make_rows(const AttentionArguments& a, cudaStream_t stream) {
  bool one_pass = a.tile_keys > 0;
  auto slots = one_pass ? static_cast<int>(tile_slots(a.p.keys, a.p.sequences, a.tile_keys)) : 0;
  unsigned order = one_pass ? blocks_of(slots) : 0;
  unsigned blocks = order + blocks_of(a.p.queries * a.p.heads * 8);
  if (a.p.number == AttentionNumber::f32) {
    rows_kernel<float><<<blocks, kThreads, 0, stream>>>(a, static_cast<int>(order), slots);
  } else if (a.p.number == AttentionNumber::f16) {
    rows_kernel<__half><<<blocks, kThreads, 0, stream>>>(a, static_cast<int>(order), slots);
  } else {
    rows_kernel<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(a, static_cast<int>(order), slots);
  }
  return cudaGetLastError();
}

cudaError_t round_query_gradient(const AttentionArguments& a, cudaStream_t stream) {
  unsigned blocks = blocks_of(static_cast<int64_t>(a.sum_slots) * a.p.heads * 32);
  auto launch = [&](auto number) {
    using T = decltype(number);
    if (a.p.head_dim <= 64) {
      round_kernel<T, 64><<<blocks, kThreads, 0, stream>>>(a);
    } else {
      round_kernel<T, 128><<<blocks, kThreads, 0, stream>>>(a);
    }
  };
  if (a.p.number == AttentionNumber::f16) {
    launch(__half{});
  } else {
    launch(__nv_bfloat16{});
  }
  return cudaGetLastError();
}

cudaError_t attributes_of_built_code(cudaFuncAttributes& attributes) {
  return cudaFuncGetAttributes(&attributes, rows_kernel<float>);
}

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

}  // namespace snug::cuda
