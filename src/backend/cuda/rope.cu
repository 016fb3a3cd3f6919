// Rotary position embedding in Hugging Face's layout: within each head, element i is paired with element
// i + head_dim / 2, and the pair is turned by the angle position * inverse_frequencies[i]. One block a token.
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

struct Turn {
  int64_t columns;
  int64_t turned_columns;
  int64_t head_dim;
  float magnitude;
  float direction;  // -1: back
  bool accumulate;
};

// y may be x: a thread reads and writes the same pairs.
template <typename T, int N>
__global__ void rope_kernel(const T* x, const int32_t* positions, const float* frequencies, T* y, Turn turn) {
  extern __shared__ float table[];  // cosines, then sines, of this token's pairs
  int pairs = static_cast<int>(turn.head_dim / 2);
  float position = static_cast<float>(positions[blockIdx.x]);
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += kThreads) {
    // The angle is a product of two floats, as in Hugging Face's code.
    float sine;
    float cosine;
    sincosf(position * frequencies[i], &sine, &cosine);
    table[i] = cosine * turn.magnitude;
    table[pairs + i] = sine * turn.magnitude * turn.direction;
  }
  __syncthreads();
  const T* source = x + static_cast<int64_t>(blockIdx.x) * turn.columns;
  T* destination = y + static_cast<int64_t>(blockIdx.x) * turn.columns;
  for (int64_t k = threadIdx.x * N; k < turn.turned_columns / 2; k += kThreads * N) {
    int pair = static_cast<int>(k % pairs);
    int64_t column = k / pairs * turn.head_dim + pair;
    Vector<T, N> low = load<N>(source + column);
    Vector<T, N> high = load<N>(source + column + pairs);
    float turned_low[N];
    float turned_high[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float cosine = table[pair + j];
      float sine = table[pairs + pair + j];
      turned_low[j] = to_float(low.at[j]) * cosine - to_float(high.at[j]) * sine;
      turned_high[j] = to_float(high.at[j]) * cosine + to_float(low.at[j]) * sine;
    }
    write<N>(destination + column, turned_low, turn.accumulate);
    write<N>(destination + column + pairs, turned_high, turn.accumulate);
  }
  for (int64_t column = turn.turned_columns + threadIdx.x * N; column < turn.columns;
       column += kThreads * N) {
    Vector<T, N> values = load<N>(source + column);
    float copied[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      copied[j] = to_float(values.at[j]);
    }
    write<N>(destination + column, copied, turn.accumulate);
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
  Turn turn{.columns = x.columns(),
            .turned_columns = attributes.rotated_heads * attributes.head_dim,
            .head_dim = attributes.head_dim,
            .magnitude = attributes.magnitude,
            .direction = attributes.inverse ? -1.0F : 1.0F,
            .accumulate = call.op.accumulates_output(0)};
  SNUG_CHECK(turn.turned_columns <= turn.columns, "more heads to rotate than columns");
  auto shared_bytes = static_cast<size_t>(attributes.head_dim) * sizeof(float);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    bool whole_vectors = attributes.head_dim % (2 * kVector<T>) == 0;
    with_width<T>(whole_vectors ? turn.columns : 1, [&](auto width) {
      rope_kernel<T, decltype(width)::value>
          <<<static_cast<unsigned>(x.rows()), kThreads, shared_bytes, queue.stream>>>(
              x.as<T>(), call.inputs[1].as<int32_t>(), call.inputs[2].as<float>(), call.outputs[0].as<T>(),
              turn);
    });
  });
  check_launch("rotating positions");
}

}  // namespace snug::cuda
