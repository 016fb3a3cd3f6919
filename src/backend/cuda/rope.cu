// Rotary position embedding in Hugging Face's layout: within each head, element i is paired with element
// i + head_dim / 2, and the pair is turned by the angle position * inverse_frequencies[i]. One block some
// tokens.
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/turns.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

struct Rows {
  int64_t tokens;
  int64_t columns;
  int64_t turned_columns;
  int64_t head_dim;
  int block_tokens;  // that a block has at a time
  bool accumulate;
};

// y may be x: a thread reads and writes the same pairs.
template <typename T, int N>
__global__ void rope_kernel(Rows rows, Turns turns, const T* x, T* y) {
  extern __shared__ __align__(16) float shared[];
  TurnTable table{shared, turns.pairs};
  int64_t first = static_cast<int64_t>(blockIdx.x) * rows.block_tokens;
  int tokens = static_cast<int>(min(static_cast<int64_t>(rows.block_tokens), rows.tokens - first));
  table.fill(turns, first, tokens);
  __syncthreads();
  const T* source = x + first * rows.columns;
  T* destination = y + first * rows.columns;
  int turned_pairs = static_cast<int>(rows.turned_columns / 2);  // of a token
  for (int k = static_cast<int>(threadIdx.x) * N; k < tokens * turned_pairs; k += kThreads * N) {
    int token = k / turned_pairs;
    int within = k % turned_pairs;
    int pair = within % turns.pairs;
    int64_t column = token * rows.columns + within / turns.pairs * rows.head_dim + pair;
    Vector<T, N> low = load<N>(source + column);
    Vector<T, N> high = load<N>(source + column + turns.pairs);
    TurnVector<N> turn = table.of<N>(token, pair);
    float turned_low[N];
    float turned_high[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      turned_low[j] = turn.at(j).low(to_float(low.at[j]), to_float(high.at[j]));
      turned_high[j] = turn.at(j).high(to_float(low.at[j]), to_float(high.at[j]));
    }
    write<N>(destination + column, turned_low, rows.accumulate);
    write<N>(destination + column + turns.pairs, turned_high, rows.accumulate);
  }
  if (x == y && !rows.accumulate) {
    return;  // the other columns are there already
  }
  int others = static_cast<int>(rows.columns - rows.turned_columns);  // of a token
  for (int k = static_cast<int>(threadIdx.x) * N; k < tokens * others; k += kThreads * N) {
    int64_t column = k / others * rows.columns + rows.turned_columns + k % others;
    Vector<T, N> values = load<N>(source + column);
    float copied[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      copied[j] = to_float(values.at[j]);
    }
    write<N>(destination + column, copied, rows.accumulate);
  }
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
  Rows rows{.tokens = x.rows(),
            .columns = x.columns(),
            .turned_columns = attributes.rotated_heads * attributes.head_dim,
            .head_dim = attributes.head_dim,
            .block_tokens = 1,
            .accumulate = call.op.accumulates_output(0)};
  Turns turns{.positions = call.inputs[1].as<int32_t>(),
              .frequencies = call.inputs[2].as<float>(),
              .pairs = static_cast<int>(attributes.head_dim / 2),
              .magnitude = attributes.magnitude,
              .direction = attributes.inverse ? -1.0F : 1.0F};
  SNUG_CHECK(rows.turned_columns <= rows.columns, "more heads to rotate than columns");
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    bool whole_vectors = attributes.head_dim % (2 * kVector<T>) == 0;
    with_width<T>(whole_vectors ? rows.columns : 1, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      rows.block_tokens = tokens_for(rows.turned_columns / (2 * kWidth), kThreads, rows.head_dim);
      auto shared_bytes = static_cast<size_t>(rows.block_tokens * rows.head_dim) * sizeof(float);
      rope_kernel<T, kWidth>
          <<<blocks_for(x.rows(), rows.block_tokens), kThreads, shared_bytes, queue.stream>>>(
              rows, turns, x.as<T>(), call.outputs[0].as<T>());
    });
  });
  check_launch("rotating positions");
}

}  // namespace snug::cuda
