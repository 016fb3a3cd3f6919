// Tiles of half-precision numbers in shared memory and the tensor-core products on them, for cards since
// Turing.
#pragma once

#include <type_traits>

#include "backend/cuda/attention/work.cuh"
#include "backend/cuda/instructions/products.cuh"
#include "backend/cuda/instructions/shared_memory.cuh"

namespace snug::cuda {

// A tile [kRows, kColumns] of 2-byte numbers is cut into panels of 64 columns, each row of a panel being 128
// bytes: eight 16-byte chunks, stored at chunk ^ (row % 8). Eight rows of one chunk column then lie in
// different banks, and Hopper's tensor cores read the same layout (their 128-byte swizzle) along either
// dimension.
template <int kRows>
__device__ inline uint32_t chunk_offset(int row, int chunk) {
  return static_cast<uint32_t>((chunk >> 3) * (kRows * 128) + row * 128 + (((chunk ^ row) & 7) << 4));
}

// Rows of one head in a wider row-major matrix.
struct Rows {
  const void* data = nullptr;  // row 0 of the tile, the head's first column
  int64_t stride = 0;          // elements
  int count = 0;               // rows there are, perhaps fewer than the tile's; the rest become zeros
  int head_dim = 0;            // columns there are, a multiple of 8; the rest become zeros
};

template <typename T>
__device__ inline Rows rows_of(const void* data, int64_t stride, int64_t row, int64_t column, int count,
                               int head_dim) {
  return {static_cast<const T*>(data) + row * stride + column, stride, count, head_dim};
}

// tile[kRows, kColumns] = rows, by kThreads threads, of which this is number `thread`.
template <int kRows, int kColumns, int kThreads>
__device__ inline void load_tile(uint32_t tile, const Rows& rows, int thread) {
  constexpr int kChunks = kColumns / 8;
  constexpr int kRowStep = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && kRows % kRowStep == 0);
  int chunk = thread % kChunks;
  int row = thread / kChunks;
  const char* from = static_cast<const char*>(rows.data) + (row * rows.stride + chunk * 8) * 2;
  int64_t step_bytes = kRowStep * rows.stride * 2;
  bool in_head = chunk * 8 < rows.head_dim;
#pragma unroll
  for (int i = 0; i < kRows / kRowStep; ++i) {
    bool valid = in_head && row + i * kRowStep < rows.count;
    copy_chunk(tile + chunk_offset<kRows>(row + i * kRowStep, chunk), valid ? from : rows.data, valid);
    from += step_bytes;
  }
}

// Where a lane reads a tile's fragments, each of which is 16 rows of two chunks: of the first one, from a row
// on that is a multiple of 8. Tiles begin at multiples of 1024 bytes, so that other chunks differ by an
// exclusive or and a constant, which costs one instruction and no register.
struct Fragments {
  uint32_t place = 0;

  // As they lie: a left operand, and transposed a right one whose depth is the tile's rows.
  __device__ static Fragments along_rows(uint32_t tile, int row) {
    int lane = static_cast<int>(threadIdx.x & 31);
    return {tile + chunk_offset<0>(lane & 15, lane >> 4) + row * 128};
  }
  // With the middle matrices exchanged: a right operand of which the tile holds the transpose, and transposed
  // a left one likewise.
  __device__ static Fragments across_rows(uint32_t tile, int row) {
    int lane = static_cast<int>(threadIdx.x & 31);
    return {tile + chunk_offset<0>((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1) + row * 128};
  }

  // `row`: further down; `chunk`: even.
  template <int kRows>
  __device__ uint32_t at(int row, int chunk) const {
    return (place ^ ((chunk & 7) << 4)) + (chunk >> 3) * (kRows * 128) + row * 128;
  }
  // From a chunk on: at(row, chunk) is then relative to it, as long as both have no bit in common.
  template <int kRows>
  __device__ Fragments from(int chunk) const {
    return {at<kRows>(0, chunk)};
  }
};

template <typename T>
__device__ inline uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t*>(&both);
  } else {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<uint32_t*>(&both);
  }
}

// Sums of a product, columns [16 * step, 16 * step + 16), rounded, as the left operand of the next one: the
// lanes already hold what they need.
template <typename T, int kBlocks>
__device__ inline void as_left(uint32_t (&a)[4], const float (&sums)[kBlocks][4], int step) {
  a[0] = pack<T>(sums[2 * step][0], sums[2 * step][1]);
  a[1] = pack<T>(sums[2 * step][2], sums[2 * step][3]);
  a[2] = pack<T>(sums[2 * step + 1][0], sums[2 * step + 1][1]);
  a[3] = pack<T>(sums[2 * step + 1][2], sums[2 * step + 1][3]);
}

// A warp's sums [16 * kRowTiles, 8 * kBlocks].
template <int kRowTiles, int kBlocks>
using Sums = float[kRowTiles][kBlocks][4];

template <int kRowTiles, int kBlocks>
__device__ inline void clear(Sums<kRowTiles, kBlocks>& sums) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      sums[r][n][0] = sums[r][n][1] = sums[r][n][2] = sums[r][n][3] = 0;
    }
  }
}

// sums = left[row.., kDepth] right[right_row.., kDepth]^T, both tiles in shared memory, which have kLeftRows
// and kRightRows rows in all.
template <typename T, int kLeftRows, int kDepth, int kRowTiles, int kBlocks, int kRightRows = 8 * kBlocks>
__device__ inline void multiply_rows(Sums<kRowTiles, kBlocks>& sums, uint32_t left, int row, uint32_t right,
                                     int right_row = 0) {
  clear<kRowTiles, kBlocks>(sums);
  Fragments lefts = Fragments::along_rows(left, row);
  Fragments rights = Fragments::across_rows(right, right_row);
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      load_matrices(a[r], lefts.at<kLeftRows>(16 * r, 2 * step));
    }
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      // b[0..1] is the first half of 16 columns, b[2..3] the second.
      uint32_t b[4];
      load_matrices(b, rights.at<kRightRows>(8 * n, 2 * step));
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        multiply_add<T>(sums[r][n], a[r], b[0], b[1]);
        multiply_add<T>(sums[r][n + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// sums += a right[row, row + 16), 16 deep; the right tile has kRows rows.
template <typename T, int kRows, int kRowTiles, int kBlocks>
__device__ inline void add_step(Sums<kRowTiles, kBlocks>& sums, const uint32_t (&a)[kRowTiles][4],
                                const Fragments& right, int row) {
#pragma unroll
  for (int n = 0; n < kBlocks; n += 2) {
    uint32_t b[4];
    load_matrices_transposed(b, right.at<kRows>(row, n));
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      multiply_add<T>(sums[r][n], a[r], b[0], b[1]);
      multiply_add<T>(sums[r][n + 1], a[r], b[2], b[3]);
    }
  }
}

// sums[.., 8 * kBlocks] += weights[.., 8 * kDepthBlocks] (rounded to T) * tile[8 * kDepthBlocks, 8 *
// kBlocks].
template <typename T, int kRowTiles, int kDepthBlocks, int kBlocks>
__device__ inline void add_weighted_rows(Sums<kRowTiles, kBlocks>& sums,
                                         const Sums<kRowTiles, kDepthBlocks>& weights, uint32_t tile) {
  Fragments rights = Fragments::along_rows(tile, 0);
#pragma unroll
  for (int step = 0; step < kDepthBlocks / 2; ++step) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      as_left<T, kDepthBlocks>(a[r], weights[r], step);
    }
    add_step<T, 8 * kDepthBlocks, kRowTiles, kBlocks>(sums, a, rights, 16 * step);
  }
}

// sums += left right[kDepth, column..], the right tile in shared memory; `read` gives 16 rows of 16 columns
// of the left operand. `column` is a multiple of the sums' columns.
template <typename T, int kDepth, int kRowTiles, int kBlocks, typename Read>
__device__ inline void add_steps(float (&sums)[kRowTiles][kBlocks][4], const Read& read, uint32_t right,
                                 int column) {
  Fragments rights = Fragments::along_rows(right, 0).from<kDepth>(column / 8);
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      read(a[r], r, step);
    }
    add_step<T, kDepth, kRowTiles, kBlocks>(sums, a, rights, 16 * step);
  }
}

// sums += left[row.., kDepth] right[kDepth, column..], both tiles in shared memory.
template <typename T, int kLeftRows, int kDepth, int kRowTiles, int kBlocks>
__device__ inline void add_product(float (&sums)[kRowTiles][kBlocks][4], uint32_t left, int row,
                                   uint32_t right, int column) {
  Fragments lefts = Fragments::along_rows(left, row);
  auto read = [&](uint32_t(&a)[4], int r, int step) {
    load_matrices(a, lefts.at<kLeftRows>(16 * r, 2 * step));
  };
  add_steps<T, kDepth>(sums, read, right, column);
}

// sums += left[kDepth, row..]^T right[kDepth, column..], likewise; `row` is a multiple of the sums' rows.
template <typename T, int kDepth, int kRowTiles, int kBlocks>
__device__ inline void add_product_of_columns(float (&sums)[kRowTiles][kBlocks][4], uint32_t left, int row,
                                              uint32_t right, int column) {
  Fragments lefts = Fragments::across_rows(left, 0).from<kDepth>(row / 8);
  auto read = [&](uint32_t(&a)[4], int r, int step) {
    load_matrices_transposed(a, lefts.at<kDepth>(16 * step, 2 * r));
  };
  add_steps<T, kDepth>(sums, read, right, column);
}

// Rounds sums into a tile of kRows rows, from its row and column on; multiples as above.
template <typename T, int kRows, int kRowTiles, int kBlocks>
__device__ inline void store_sums(const float (&sums)[kRowTiles][kBlocks][4], uint32_t tile, int row,
                                  int column) {
  int lane = static_cast<int>(threadIdx.x & 31);
  uint32_t at = tile + chunk_offset<kRows>(lane >> 2, 0) + row * 128 + 4 * (lane & 3);
  Fragments to = Fragments{at}.from<kRows>(column / 8);
#pragma unroll
  for (int i = 0; i < 2 * kRowTiles * kBlocks; ++i) {
    const float(&part)[4] = sums[i / (2 * kBlocks)][i / 2 % kBlocks];
    uint32_t word = pack<T>(part[2 * (i & 1)], part[2 * (i & 1) + 1]);
    write_word(to.at<kRows>(8 * (i & 1) + 16 * (i / (2 * kBlocks)), i / 2 % kBlocks), word);
  }
}

// Word i of lane l becomes word l of lane i, among four lanes.
__device__ inline void transpose(uint32_t (&words)[4]) {
  int lane = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & step) == 0) {
        uint32_t got = __shfl_xor_sync(0xffffffffU, upper ? words[i] : words[i + step], step);
        (upper ? words[i] : words[i + step]) = got;
      }
    }
  }
}

// Whether rows begin at multiples of 16 bytes.
inline __host__ __device__ bool are_wide(const void* data, int64_t stride) {
  return (reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(stride * 2)) % 16 == 0;
}

// Four words of each of four lanes, which hold 2 columns of 8 in turn, to a row: 8 columns of the n-th word.
template <typename T>
__device__ inline void store_words(uint32_t (&words)[4], T* row, int first_column, int columns, bool wide) {
  transpose(words);
  int column = first_column + 8 * static_cast<int>(threadIdx.x & 3);
  if (row == nullptr || column >= columns) {
    return;
  }
  if (wide) {
    *reinterpret_cast<uint4*>(row + column) = make_uint4(words[0], words[1], words[2], words[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    reinterpret_cast<uint32_t*>(row + column)[i] = words[i];
  }
}

// Sums of a slot of 8 queries as the lanes hold them, times `factor`, to the lane's row of dq (null: none).
template <typename T, int kBlocks>
__device__ inline void store_query_slot(const AttentionArguments& a, const float2 (&sums)[kBlocks], T* row,
                                        float factor) {
  bool wide = are_wide(a.p.dq, a.p.dq_stride);
#pragma unroll
  for (int n = 0; n < kBlocks; n += 4) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = pack<T>(sums[n + i].x * factor, sums[n + i].y * factor);
    }
    store_words<T>(words, row, 8 * n, a.p.head_dim, wide);
  }
}

// Writes sums[16, kColumns] * factor per row half to two rows (lane / 4 and 8 further) of a row-major matrix.
template <typename T, int kColumns>
__device__ inline void store_rows(const float (&sums)[kColumns / 8][4], void* data, int64_t stride,
                                  int rows_left, int head_dim, float2 factors) {
  int row = static_cast<int>(threadIdx.x & 31) >> 2;
  bool wide = are_wide(data, stride);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    T* to = row + 8 * half < rows_left ? static_cast<T*>(data) + (row + 8 * half) * stride : nullptr;
    float factor = half == 0 ? factors.x : factors.y;
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 4) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = pack<T>(sums[n + i][2 * half] * factor, sums[n + i][2 * half + 1] * factor);
      }
      store_words<T>(words, to, 8 * n, head_dim, wide);
    }
  }
}

}  // namespace snug::cuda
