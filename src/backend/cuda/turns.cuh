// Turns of heads by their tokens' positions, which rope.cu and head_norm.cu share. Products and sums are
// written as the card is to make them, so that the same values give both the same bits.
#pragma once

#include "backend/cuda/vectors.cuh"

namespace snug::cuda {

// Of a pair: element i of a head and element i + pairs.
struct PairTurn {
  float cosine;
  float sine;

  __device__ float low(float low, float high) const { return __fmaf_rn(low, cosine, -__fmul_rn(high, sine)); }
  __device__ float high(float low, float high) const { return __fmaf_rn(high, cosine, __fmul_rn(low, sine)); }
};

struct Turns {
  const int32_t* positions;
  const float* frequencies;  // [pairs]
  int pairs;                 // of a head
  float magnitude;
  float direction;  // -1: back

  // The angle is a product of two floats, as in Hugging Face's code.
  __device__ PairTurn of(int64_t token, int pair) const {
    float sine;
    float cosine;
    sincosf(__fmul_rn(static_cast<float>(positions[token]), frequencies[pair]), &sine, &cosine);
    return {cosine * magnitude, sine * magnitude * direction};
  }
};

// Of N neighbouring pairs.
template <int N>
struct TurnVector {
  Vector<float, N> cosine;
  Vector<float, N> sine;

  __device__ PairTurn at(int i) const { return {cosine.at[i], sine.at[i]}; }
};

// The turns of a block's tokens, in shared memory: of each token the cosines, then the sines, of its pairs.
struct TurnTable {
  float* values;  // aligned for vectors
  int pairs;

  // By all threads of the block; a barrier has to follow.
  __device__ void fill(const Turns& turns, int64_t first, int tokens) const {
    for (int i = static_cast<int>(threadIdx.x); i < tokens * pairs; i += static_cast<int>(blockDim.x)) {
      int token = i / pairs;
      int pair = i % pairs;
      PairTurn turn = turns.of(first + token, pair);
      values[2 * token * pairs + pair] = turn.cosine;
      values[2 * token * pairs + pairs + pair] = turn.sine;
    }
  }
  // From `pair` on, which is a multiple of N as `pairs` is; `token` counts within the block.
  template <int N>
  __device__ TurnVector<N> of(int token, int pair) const {
    const float* cosines = values + 2 * token * pairs + pair;
    return {load<N>(cosines), load<N>(cosines + pairs)};
  }
};

// Tokens that a block has at a time: as few as leave the fewest threads without one of their vectors, and no
// more than have room in shared memory.
inline int tokens_for(int64_t vectors, int threads, int64_t shared_floats) {
  constexpr int64_t kSharedFloats = 48 * 1024 / sizeof(float);
  int best = 1;
  double best_share = 0;
  for (int tokens = 1; tokens <= 8 && (tokens == 1 || tokens * shared_floats <= kSharedFloats); ++tokens) {
    unsigned turns = blocks_for(tokens * vectors, threads);
    double share = static_cast<double>(tokens * vectors) / (turns * static_cast<double>(threads));
    if (share > best_share + 0.01) {
      best = tokens;
      best_share = share;
    }
  }
  return best;
}

}  // namespace snug::cuda
