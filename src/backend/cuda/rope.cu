// Rotary position embedding in Hugging Face's layout: within each head, element i is paired with element
// i + head_dim / 2, and the pair is turned by the angle position * inverse_frequencies[i]. One block some
// tokens.
#include <algorithm>

#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

struct Turn {
  int64_t tokens;
  int64_t columns;
  int64_t turned_columns;
  int64_t head_dim;
  float magnitude;
  float direction;   // -1: back
  int block_tokens;  // that a block has at a time
  bool accumulate;
};

// y may be x: a thread reads and writes the same pairs.
template <typename T, int N>
__global__ void rope_kernel(const T* x, const int32_t* positions, const float* frequencies, T* y, Turn turn) {
  extern __shared__ float table[];  // of each token the cosines, then the sines, of its pairs
  int pairs = static_cast<int>(turn.head_dim / 2);
  int64_t first = static_cast<int64_t>(blockIdx.x) * turn.block_tokens;
  int tokens = static_cast<int>(min(static_cast<int64_t>(turn.block_tokens), turn.tokens - first));
  for (int i = static_cast<int>(threadIdx.x); i < tokens * pairs; i += kThreads) {
    int token = i / pairs;
    int pair = i % pairs;
    // The angle is a product of two floats, as in Hugging Face's code.
    float sine;
    float cosine;
    sincosf(static_cast<float>(positions[first + token]) * frequencies[pair], &sine, &cosine);
    table[2 * token * pairs + pair] = cosine * turn.magnitude;
    table[2 * token * pairs + pairs + pair] = sine * turn.magnitude * turn.direction;
  }
  __syncthreads();
  const T* source = x + first * turn.columns;
  T* destination = y + first * turn.columns;
  int turned_pairs = static_cast<int>(turn.turned_columns / 2);  // of a token
  for (int k = static_cast<int>(threadIdx.x) * N; k < tokens * turned_pairs; k += kThreads * N) {
    int token = k / turned_pairs;
    int within = k % turned_pairs;
    int pair = within % pairs;
    int64_t column = token * turn.columns + within / pairs * turn.head_dim + pair;
    const float* cosines = table + 2 * token * pairs + pair;
    Vector<T, N> low = load<N>(source + column);
    Vector<T, N> high = load<N>(source + column + pairs);
    float turned_low[N];
    float turned_high[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float cosine = cosines[j];
      float sine = cosines[pairs + j];
      turned_low[j] = to_float(low.at[j]) * cosine - to_float(high.at[j]) * sine;
      turned_high[j] = to_float(high.at[j]) * cosine + to_float(low.at[j]) * sine;
    }
    write<N>(destination + column, turned_low, turn.accumulate);
    write<N>(destination + column + pairs, turned_high, turn.accumulate);
  }
  if (x == y && !turn.accumulate) {
    return;  // the other columns are there already
  }
  int others = static_cast<int>(turn.columns - turn.turned_columns);  // of a token
  for (int k = static_cast<int>(threadIdx.x) * N; k < tokens * others; k += kThreads * N) {
    int64_t column = k / others * turn.columns + turn.turned_columns + k % others;
    Vector<T, N> values = load<N>(source + column);
    float copied[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      copied[j] = to_float(values.at[j]);
    }
    write<N>(destination + column, copied, turn.accumulate);
  }
}

// Tokens that a block has at a time: as few as leave the fewest threads without one of their vectors.
int tokens_for(int64_t vectors) {
  int best = 1;
  double best_share = 0;
  for (int tokens = 1; tokens <= 8; ++tokens) {
    unsigned turns = blocks_for(tokens * vectors, kThreads);
    double share = static_cast<double>(tokens * vectors) / (turns * kThreads);
    if (share > best_share + 0.01) {
      best = tokens;
      best_share = share;
    }
  }
  return best;
}

}  // namespace

// y (= or +=) x with its first rotated_heads heads turned; the other columns are taken over. The inverse
// turns back and scales by the same magnitude: it is the gradient.
void rope(const Queue& queue, const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const auto& attributes = attributes_of<RopeAttributes>(call.op);
  if (x.rows() == 0) {
    return;
  }
  Turn turn{.tokens = x.rows(),
            .columns = x.columns(),
            .turned_columns = attributes.rotated_heads * attributes.head_dim,
            .head_dim = attributes.head_dim,
            .magnitude = attributes.magnitude,
            .direction = attributes.inverse ? -1.0F : 1.0F,
            .block_tokens = 1,
            .accumulate = call.op.accumulates_output(0)};
  SNUG_CHECK(turn.turned_columns <= turn.columns, "more heads to rotate than columns");
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    bool whole_vectors = attributes.head_dim % (2 * kVector<T>) == 0;
    with_width<T>(whole_vectors ? turn.columns : 1, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      turn.block_tokens = tokens_for(turn.turned_columns / (2 * kWidth));
      auto shared_bytes = static_cast<size_t>(turn.block_tokens * attributes.head_dim) * sizeof(float);
      rope_kernel<T, kWidth>
          <<<blocks_for(x.rows(), turn.block_tokens), kThreads, shared_bytes, queue.stream>>>(
              x.as<T>(), call.inputs[1].as<int32_t>(), call.inputs[2].as<float>(), call.outputs[0].as<T>(),
              turn);
    });
  });
  check_launch("rotating positions");
}

}  // namespace snug::cuda
