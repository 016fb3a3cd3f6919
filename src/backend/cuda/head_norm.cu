// head_norm: the arithmetic of rms_norm on each query and key head of a row; the values are copied. Some
// lanes of a warp take a head.
#include <bit>
#include <numeric>

#include "backend/cuda/check.h"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

struct Heads {
  int64_t q_heads;
  int64_t normalised;  // heads that are normalised: queries and keys
  int64_t pieces;      // pieces of head_dim columns in a row, the last may be shorter
  int64_t head_dim;
  int64_t columns;
  int64_t tokens;
  float epsilon;
};

Heads heads_of(const KernelCall& call) {
  const auto& attributes = attributes_of<HeadNormAttributes>(call.op);
  const Tensor& x = call.inputs[0];
  int64_t head_dim = call.inputs[1].rows();
  return {attributes.q_heads,
          attributes.q_heads + attributes.k_heads,
          (x.columns() + head_dim - 1) / head_dim,
          head_dim,
          x.columns(),
          x.rows(),
          attributes.epsilon};
}

// The piece of a row that this thread's lanes work on. Blocks: (tokens, pieces).
struct Piece {
  unsigned lanes;
  unsigned lane;
  int64_t index;
  int64_t begin;  // element of x
  int64_t count;

  __device__ Piece(const Heads& heads, int lanes_log2)
      : lanes(1U << lanes_log2),
        lane(threadIdx.x & (lanes - 1)),
        index((blockIdx.y * kThreads + threadIdx.x) >> lanes_log2),
        begin(static_cast<int64_t>(blockIdx.x) * heads.columns + index * heads.head_dim),
        count(min(heads.head_dim, heads.columns - index * heads.head_dim)) {}

  // Over the piece's lanes, in all of them.
  __device__ float sum(float value) const {
    unsigned all = (lanes == 32 ? 0U : 1U << lanes) - 1U;
    unsigned mask = all << (threadIdx.x % 32 - lane);
    for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(mask, value, offset);
    }
    return value;
  }

  template <int N, typename T>
  __device__ void copy(const T* source, T* destination) const {
    for (int64_t i = lane * N; i < count; i += lanes * N) {
      store<N>(destination + begin + i, load<N>(source + begin + i));
    }
  }
};

// The second reading of a head comes from the cache.
template <typename T, typename W, int N>
__global__ void head_norm_kernel(Heads heads, int lanes_log2, const T* x, const W* q_weight,
                                 const W* k_weight, T* y) {
  Piece piece(heads, lanes_log2);
  if (piece.index >= heads.pieces) {
    return;
  }
  if (piece.index >= heads.normalised) {
    return piece.copy<N>(x, y);
  }
  const W* weight = piece.index < heads.q_heads ? q_weight : k_weight;
  float squares = 0;
  for (int64_t i = piece.lane * N; i < piece.count; i += piece.lanes * N) {
    Vector<T, N> values = load<N>(x + piece.begin + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      squares += to_float(values.at[j]) * to_float(values.at[j]);
    }
  }
  float scale = rsqrtf(piece.sum(squares) / static_cast<float>(heads.head_dim) + heads.epsilon);
  for (int64_t i = piece.lane * N; i < piece.count; i += piece.lanes * N) {
    Vector<T, N> values = load<N>(x + piece.begin + i);
    Vector<W, N> w = load<N>(weight + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float normalised = to_float(round_to<T>(to_float(values.at[j]) * scale));
      values.at[j] = round_to<T>(normalised * to_float(w.at[j]));
    }
    store<N>(y + piece.begin + i, values);
  }
}

template <typename T, typename W>
struct Backward {
  const T* x;
  const W* q_weight;
  const W* k_weight;
  const T* dy;
  T* dx;
  float* scales;  // [T, normalised heads]; null: not wanted
};

// As in norm.cu, a head instead of a row.
template <typename T, typename W, int N>
__global__ void head_norm_backward_kernel(Heads heads, int lanes_log2, Backward<T, W> buffers) {
  Piece piece(heads, lanes_log2);
  if (piece.index >= heads.pieces) {
    return;
  }
  if (piece.index >= heads.normalised) {
    return piece.copy<N>(buffers.dy, buffers.dx);
  }
  const W* weight = piece.index < heads.q_heads ? buffers.q_weight : buffers.k_weight;
  float squares = 0;
  float dot = 0;
  for (int64_t i = piece.lane * N; i < piece.count; i += piece.lanes * N) {
    Vector<T, N> x = load<N>(buffers.x + piece.begin + i);
    Vector<T, N> dy = load<N>(buffers.dy + piece.begin + i);
    Vector<W, N> w = load<N>(weight + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      squares += to_float(x.at[j]) * to_float(x.at[j]);
      dot += to_float(dy.at[j]) * to_float(w.at[j]) * to_float(x.at[j]);
    }
  }
  float width = static_cast<float>(heads.head_dim);
  float scale = rsqrtf(piece.sum(squares) / width + heads.epsilon);
  float pull = piece.sum(dot) * scale * scale / width;
  if (buffers.scales != nullptr && piece.lane == 0) {
    buffers.scales[blockIdx.x * heads.normalised + piece.index] = scale;
  }
  for (int64_t i = piece.lane * N; i < piece.count; i += piece.lanes * N) {
    Vector<T, N> x = load<N>(buffers.x + piece.begin + i);
    Vector<T, N> dy = load<N>(buffers.dy + piece.begin + i);
    Vector<W, N> w = load<N>(weight + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float gradient = to_float(dy.at[j]) * to_float(w.at[j]);
      x.at[j] = round_to<T>(scale * (gradient - to_float(x.at[j]) * pull));
    }
    store<N>(buffers.dx + piece.begin + i, x);
  }
}

// Calls body(Width<N>, lanes_log2, blocks): vectors of N, as many lanes as a head has of them.
template <typename T, typename Body>
void with_lanes(const Heads& heads, const Body& body) {
  with_width<T>(std::gcd(heads.head_dim, heads.columns), [&](auto width) {
    auto vectors = static_cast<unsigned>(heads.head_dim / decltype(width)::value);
    int lanes_log2 = std::min(static_cast<int>(std::bit_width(vectors - 1)), 5);
    dim3 blocks(static_cast<unsigned>(heads.tokens), blocks_for(heads.pieces << lanes_log2, kThreads));
    body(width, lanes_log2, blocks);
  });
}

// What the heads [first, first + count) of a token add to the gradient of their weight.
template <typename T>
struct HeadTerm {
  Heads heads;
  const T* x;
  const T* dy;
  const float* scales;
  int64_t first;
  int64_t count;

  __device__ float operator()(int64_t row, int64_t column) const {
    float sum = 0;
    for (int64_t head = first; head < first + count; ++head) {
      int64_t i = row * heads.columns + head * heads.head_dim + column;
      sum += to_float(dy[i]) * to_float(x[i]) * scales[row * heads.normalised + head];
    }
    return sum;
  }
};

}  // namespace

void head_norm(const Queue& queue, const KernelCall& call) {
  Heads heads = heads_of(call);
  if (heads.tokens == 0) {
    return;
  }
  with_type(call.inputs[0].dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_weight_type<T>(call.inputs[1].dtype, [&](auto weight_type) {
      using W = typename decltype(weight_type)::type;
      with_lanes<T>(heads, [&](auto width, int lanes_log2, dim3 blocks) {
        head_norm_kernel<T, W, decltype(width)::value><<<blocks, kThreads, 0, queue.stream>>>(
            heads, lanes_log2, call.inputs[0].as<T>(), call.inputs[1].as<W>(), call.inputs[2].as<W>(),
            call.outputs[0].as<T>());
      });
    });
  });
  check_launch("normalising heads");
}

// dx =, dwq (= or +=), dwk (= or +=). The weights' sums read x and dy, so dx may be neither where they are
// wanted.
void head_norm_backward(const Queue& queue, const KernelCall& call) {
  Heads heads = heads_of(call);
  if (heads.tokens == 0) {
    return;
  }
  bool weights = call.has_output(1) || call.has_output(2);
  float* scales = nullptr;
  float* partials = nullptr;
  if (weights) {
    Scratch scratch(call.workspace);
    scales = scratch.take<float>(heads.tokens * heads.normalised);
    partials = scratch.take<float>(slice_count(heads.tokens) * heads.head_dim);
  }
  with_type(call.inputs[0].dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* x = call.inputs[0].as<T>();
    const T* dy = call.inputs[HeadNormBackwardInput::dy].as<T>();
    with_weight_type<T>(call.inputs[1].dtype, [&](auto weight_type) {
      using W = typename decltype(weight_type)::type;
      Backward<T, W> buffers{x,  call.inputs[1].as<W>(),  call.inputs[2].as<W>(),
                             dy, call.outputs[0].as<T>(), scales};
      SNUG_CHECK(!weights || (buffers.dx != x && buffers.dx != dy), "dx may not lie over x or dy here");
      with_lanes<T>(heads, [&](auto width, int lanes_log2, dim3 blocks) {
        head_norm_backward_kernel<T, W, decltype(width)::value>
            <<<blocks, kThreads, 0, queue.stream>>>(heads, lanes_log2, buffers);
      });
    });
    for (size_t which = 1; which <= 2; ++which) {
      if (call.has_output(which)) {
        int64_t first = which == 1 ? 0 : heads.q_heads;
        int64_t count = which == 1 ? heads.q_heads : heads.normalised - heads.q_heads;
        column_sums(queue.stream, HeadTerm<T>{heads, x, dy, scales, first, count}, partials,
                    call.outputs[which], heads.tokens, call.op.accumulates_output(which));
      }
    }
  });
  check_launch("the gradient of the heads' norms");
}

}  // namespace snug::cuda
