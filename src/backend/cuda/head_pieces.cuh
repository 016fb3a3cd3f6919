// How head_norm.cu's threads share a row: some lanes of a warp take a head, each of them the same elements of
// both its halves, which a turn needs together; a block takes all heads of some tokens.
#pragma once

#include "backend/cuda/turns.cuh"

namespace snug::cuda {

struct Heads {
  int64_t tokens;
  int64_t columns;
  int q_heads;
  int normalised;  // heads that are normalised: queries and keys
  int pieces;      // pieces of head_dim columns in a row, the last may be shorter
  int head_dim;
  int half;  // of a head; of an odd one the larger
  float epsilon;
  int lanes_log2 = 0;    // that take a piece
  int block_tokens = 1;  // that a block has at a time
  bool fits = false;     // a head has no more elements than its lanes hold at once

  __device__ int block_items(int64_t first_token) const {
    int tokens = static_cast<int>(min(static_cast<int64_t>(block_tokens), this->tokens - first_token));
    return (tokens * pieces) << lanes_log2;
  }
};

// N elements of a head's first half, and those that they are turned with.
template <typename T, int N>
struct Halves {
  Vector<T, N> low;
  Vector<T, N> high;

  // As it would be written and read again.
  __device__ void turn(const TurnVector<N>& turns) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float first = to_float(low.at[j]);
      float second = to_float(high.at[j]);
      low.at[j] = round_to<T>(turns.at(j).low(first, second));
      high.at[j] = round_to<T>(turns.at(j).high(first, second));
    }
  }
};

// The piece of a row that this thread's lanes work on: that of the block's so many.
template <int N>
struct Piece {
  int lanes;
  int lane;
  int token;  // within the block
  int index;
  int64_t begin;  // element of x
  int head_dim;
  int half;

  __device__ Piece(const Heads& heads, int64_t first_token, int item)
      : lanes(1 << heads.lanes_log2),
        lane(item & (lanes - 1)),
        token((item >> heads.lanes_log2) / heads.pieces),
        index((item >> heads.lanes_log2) % heads.pieces),
        begin((first_token + token) * heads.columns + static_cast<int64_t>(index) * heads.head_dim),
        head_dim(heads.head_dim),
        half(heads.half) {}

  // body(i) for each of the thread's vectors in the head's first half.
  template <typename Body>
  __device__ void each(const Body& body) const {
    for (int i = lane * N; i < half; i += lanes * N) {
      body(i);
    }
  }

  // From element i of a head and of its second half on. Of an odd head that is one element short.
  template <typename T>
  __device__ Halves<T, N> read(const T* head, int i) const {
    Halves<T, N> values;
    values.low = load<N>(head + i);
    if (N > 1 || i + half < head_dim) {
      values.high = load<N>(head + i + half);
    } else {
      values.high.at[0] = round_to<T>(0.0F);
    }
    return values;
  }
  template <typename T>
  __device__ void write(T* head, int i, const Halves<T, N>& values) const {
    store<N>(head + i, values.low);
    if (N > 1 || i + half < head_dim) {
      store<N>(head + i + half, values.high);
    }
  }

  // Over the piece's lanes, in all of them.
  __device__ float sum(float value) const {
    unsigned all = (lanes == 32 ? 0U : 1U << lanes) - 1U;
    unsigned mask = all << (threadIdx.x % 32 - lane);
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(mask, value, offset);
    }
    return value;
  }

  template <typename T>
  __device__ void copy(const Heads& heads, const T* source, T* destination) const {
    int count = static_cast<int>(
        min(static_cast<int64_t>(head_dim), heads.columns - static_cast<int64_t>(index) * head_dim));
    for (int i = lane * N; i < count && source != destination; i += lanes * N) {
      store<N>(destination + begin + i, load<N>(source + begin + i));
    }
  }
};

}  // namespace snug::cuda
