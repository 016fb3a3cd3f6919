// head_norm: the arithmetic of rms_norm on each query and key head of a row; the values are copied. With
// head_norm_rope the heads are turned by their token's position before they are written, and a gradient is
// turned back before it is used.
#include <bit>
#include <numeric>

#include "backend/cuda/check.h"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/head_pieces.cuh"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

Heads heads_of(const KernelCall& call) {
  const auto& attributes = attributes_of<HeadNormAttributes>(call.op);
  const Tensor& x = call.inputs[0];
  int64_t head_dim = call.inputs[1].rows();
  return {.tokens = x.rows(),
          .columns = x.columns(),
          .q_heads = static_cast<int>(attributes.q_heads),
          .normalised = static_cast<int>(attributes.q_heads + attributes.k_heads),
          .pieces = static_cast<int>((x.columns() + head_dim - 1) / head_dim),
          .head_dim = static_cast<int>(head_dim),
          .half = static_cast<int>((head_dim + 1) / 2),
          .epsilon = attributes.epsilon};
}

template <typename T, typename W>
struct Forward {
  const T* x;
  const W* q_weight;
  const W* k_weight;
  T* y;  // may be x
};

template <typename T, typename W, int N>
__device__ Vector<T, N> scaled(const Vector<T, N>& x, float scale, const Vector<W, N>& w) {
  Vector<T, N> y;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float normalised = to_float(round_to<T>(to_float(x.at[j]) * scale));
    y.at[j] = round_to<T>(normalised * to_float(w.at[j]));
  }
  return y;
}

template <typename T, int N>
__device__ float add_squares(float sum, const Vector<T, N>& x) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    sum = __fmaf_rn(to_float(x.at[j]), to_float(x.at[j]), sum);
  }
  return sum;
}

// What a thread has of a head stays in its registers between the sum and the scaling; of a wider one it is
// read again.
template <typename T, typename W, int N, bool kTurned>
__global__ void head_norm_kernel(Heads heads, Turns turns, Forward<T, W> buffers) {
  extern __shared__ __align__(16) float shared[];
  TurnTable table{shared, heads.half};
  int64_t first = static_cast<int64_t>(blockIdx.x) * heads.block_tokens;
  int items = heads.block_items(first);
  if constexpr (kTurned) {
    table.fill(turns, first, (items >> heads.lanes_log2) / heads.pieces);
    __syncthreads();
  }
  for (int item = static_cast<int>(threadIdx.x); item < items; item += kThreads) {
    Piece<N> piece(heads, first, item);
    if (piece.index >= heads.normalised) {
      piece.copy(heads, buffers.x, buffers.y);
      continue;
    }
    const W* weight = piece.index < heads.q_heads ? buffers.q_weight : buffers.k_weight;
    Halves<T, N> x;
    float squares = 0;
    piece.each([&](int i) {
      x = piece.read(buffers.x + piece.begin, i);
      squares = add_squares(add_squares(squares, x.low), x.high);
    });
    float scale = rsqrtf(piece.sum(squares) / static_cast<float>(heads.head_dim) + heads.epsilon);
    piece.each([&](int i) {
      if (!heads.fits) {
        x = piece.read(buffers.x + piece.begin, i);
      }
      Halves<W, N> w = piece.read(weight, i);
      Halves<T, N> y{scaled(x.low, scale, w.low), scaled(x.high, scale, w.high)};
      if constexpr (kTurned) {
        y.turn(table.of<N>(piece.token, i));
      }
      piece.write(buffers.y + piece.begin, i, y);
    });
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

// The sum with those of dy * w * x.
template <typename T, typename W, int N>
__device__ float add_dots(float sum, const Vector<T, N>& x, const Vector<T, N>& dy, const Vector<W, N>& w) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    sum = __fmaf_rn(__fmul_rn(to_float(dy.at[j]), to_float(w.at[j])), to_float(x.at[j]), sum);
  }
  return sum;
}

struct Pull {
  float scale;
  float pull;

  template <typename T, typename W, int N>
  __device__ Vector<T, N> gradient(const Vector<T, N>& x, const Vector<T, N>& dy,
                                   const Vector<W, N>& w) const {
    Vector<T, N> dx;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float gradient = __fmul_rn(to_float(dy.at[j]), to_float(w.at[j]));
      dx.at[j] = round_to<T>(scale * __fmaf_rn(-to_float(x.at[j]), pull, gradient));
    }
    return dx;
  }
};

// As in norm.cu, a head instead of a row.
template <typename T, typename W, int N, bool kTurned>
__global__ void head_norm_backward_kernel(Heads heads, Turns turns, Backward<T, W> buffers) {
  extern __shared__ __align__(16) float shared[];
  TurnTable table{shared, heads.half};
  int64_t first = static_cast<int64_t>(blockIdx.x) * heads.block_tokens;
  int items = heads.block_items(first);
  if constexpr (kTurned) {
    table.fill(turns, first, (items >> heads.lanes_log2) / heads.pieces);
    __syncthreads();
  }
  for (int item = static_cast<int>(threadIdx.x); item < items; item += kThreads) {
    Piece<N> piece(heads, first, item);
    if (piece.index >= heads.normalised) {
      piece.copy(heads, buffers.dy, buffers.dx);
      continue;
    }
    const W* weight = piece.index < heads.q_heads ? buffers.q_weight : buffers.k_weight;
    Halves<T, N> x;
    Halves<T, N> dy;
    Halves<W, N> w;
    auto read = [&](int i) {
      x = piece.read(buffers.x + piece.begin, i);
      dy = piece.read(buffers.dy + piece.begin, i);
      w = piece.read(weight, i);
      if constexpr (kTurned) {
        dy.turn(table.of<N>(piece.token, i));
      }
    };
    float squares = 0;
    float dot = 0;
    piece.each([&](int i) {
      read(i);
      squares = add_squares(add_squares(squares, x.low), x.high);
      dot = add_dots(add_dots(dot, x.low, dy.low, w.low), x.high, dy.high, w.high);
    });
    float width = static_cast<float>(heads.head_dim);
    float scale = rsqrtf(piece.sum(squares) / width + heads.epsilon);
    Pull pull{scale, piece.sum(dot) * scale * scale / width};
    if (buffers.scales != nullptr && piece.lane == 0) {
      buffers.scales[(first + piece.token) * heads.normalised + piece.index] = scale;
    }
    piece.each([&](int i) {
      if (!heads.fits) {
        read(i);
      }
      Halves<T, N> dx{pull.gradient(x.low, dy.low, w.low), pull.gradient(x.high, dy.high, w.high)};
      piece.write(buffers.dx + piece.begin, i, dx);
    });
  }
}

// Calls body(Width<N>, blocks, shared_bytes) with vectors of N, and as many lanes as half a head has of them.
template <typename T, typename Body>
void with_lanes(Heads& heads, bool is_turned, const Body& body) {
  bool has_halves = heads.head_dim % 2 == 0;
  with_width<T>(has_halves ? std::gcd<int64_t>(heads.half, heads.columns) : 1, [&](auto width) {
    auto vectors = static_cast<unsigned>(heads.half / decltype(width)::value);
    heads.lanes_log2 = std::min(static_cast<int>(std::bit_width(vectors - 1)), 5);
    heads.fits = vectors <= 1U << heads.lanes_log2;
    int table = is_turned ? 2 * heads.half : 0;
    heads.block_tokens = tokens_for(static_cast<int64_t>(heads.pieces) << heads.lanes_log2, kThreads, table);
    body(width, blocks_for(heads.tokens, heads.block_tokens),
         static_cast<size_t>(heads.block_tokens * table) * sizeof(float));
  });
}

// What the heads [first, first + count) of a token add to the gradient of their weight.
template <typename T, bool kTurned>
struct HeadTerm {
  Heads heads;
  Turns turns;
  const T* x;
  const T* dy;
  const float* scales;
  int first;
  int count;

  __device__ float operator()(int64_t row, int64_t column) const {
    int pair = static_cast<int>(column) % heads.half;
    PairTurn turn{};
    if constexpr (kTurned) {
      turn = turns.of(row, pair);
    }
    float sum = 0;
    for (int head = first; head < first + count; ++head) {
      int64_t begin = row * heads.columns + static_cast<int64_t>(head) * heads.head_dim;
      float gradient = to_float(dy[begin + column]);
      if constexpr (kTurned) {
        float low = to_float(dy[begin + pair]);
        float high = to_float(dy[begin + pair + heads.half]);
        gradient = to_float(round_to<T>(column < heads.half ? turn.low(low, high) : turn.high(low, high)));
      }
      float product = __fmul_rn(gradient, to_float(x[begin + column]));
      sum = __fmaf_rn(product, scales[row * heads.normalised + head], sum);
    }
    return sum;
  }
};

// `place`: of the positions among the inputs; the frequencies follow.
Turns turns_of(const KernelCall& call, const Heads& heads, size_t place, float direction) {
  return {.positions = call.inputs[place].as<int32_t>(),
          .frequencies = call.inputs[place + 1].as<float>(),
          .pairs = heads.half,
          .magnitude = attributes_of<HeadNormAttributes>(call.op).magnitude,
          .direction = direction};
}

template <bool kTurned>
void run_forward(const Queue& queue, const KernelCall& call) {
  Heads heads = heads_of(call);
  if (heads.tokens == 0) {
    return;
  }
  Turns turns = kTurned ? turns_of(call, heads, HeadNormRopeInput::positions, 1.0F) : Turns{};
  with_type(call.inputs[0].dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_weight_type<T>(call.inputs[1].dtype, [&](auto weight_type) {
      using W = typename decltype(weight_type)::type;
      Forward<T, W> buffers{call.inputs[0].as<T>(), call.inputs[1].as<W>(), call.inputs[2].as<W>(),
                            call.outputs[0].as<T>()};
      with_lanes<T>(heads, kTurned, [&](auto width, unsigned blocks, size_t shared_bytes) {
        head_norm_kernel<T, W, decltype(width)::value, kTurned>
            <<<blocks, kThreads, shared_bytes, queue.stream>>>(heads, turns, buffers);
      });
    });
  });
  check_launch("normalising heads");
}

// The weights' sums read x and dy, so dx may be neither where they are wanted.
template <bool kTurned>
void run_backward(const Queue& queue, const KernelCall& call) {
  Heads heads = heads_of(call);
  if (heads.tokens == 0) {
    return;
  }
  Turns turns = kTurned ? turns_of(call, heads, HeadNormBackwardInput::positions, -1.0F) : Turns{};
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
      with_lanes<T>(heads, kTurned, [&](auto width, unsigned blocks, size_t shared_bytes) {
        head_norm_backward_kernel<T, W, decltype(width)::value, kTurned>
            <<<blocks, kThreads, shared_bytes, queue.stream>>>(heads, turns, buffers);
      });
    });
    for (size_t which = 1; which <= 2; ++which) {
      if (call.has_output(which)) {
        int first = which == 1 ? 0 : heads.q_heads;
        int count = which == 1 ? heads.q_heads : heads.normalised - heads.q_heads;
        column_sums(queue.stream, HeadTerm<T, kTurned>{heads, turns, x, dy, scales, first, count}, partials,
                    call.outputs[which], heads.tokens, call.op.accumulates_output(which));
      }
    }
  });
  check_launch("the gradient of the heads' norms");
}

}  // namespace

void head_norm(const Queue& queue, const KernelCall& call) {
  run_forward<false>(queue, call);
}
void head_norm_rope(const Queue& queue, const KernelCall& call) {
  run_forward<true>(queue, call);
}

// dx =, dwq (= or +=), dwk (= or +=).
void head_norm_backward(const Queue& queue, const KernelCall& call) {
  run_backward<false>(queue, call);
}
void head_norm_rope_backward(const Queue& queue, const KernelCall& call) {
  run_backward<true>(queue, call);
}

}  // namespace snug::cuda
