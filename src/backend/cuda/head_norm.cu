// head_norm: the arithmetic of rms_norm on each query and key head of a row; the values are copied. One warp
// a head.
#include "backend/cuda/check.h"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kWarps = 8;

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

// The piece of a row that this warp works on.
struct Piece {
  int64_t row;
  int64_t index;
  int64_t begin;  // element of x
  int64_t count;
};

__device__ Piece own_piece(const Heads& heads) {
  int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  int64_t row = item / heads.pieces;
  int64_t index = item % heads.pieces;
  int64_t column = index * heads.head_dim;
  return {row, index, row * heads.columns + column, min(heads.head_dim, heads.columns - column)};
}

template <typename T, typename W>
__global__ void head_norm_kernel(Heads heads, const T* x, const W* q_weight, const W* k_weight, T* y) {
  Piece piece = own_piece(heads);
  if (piece.row >= heads.tokens) {
    return;
  }
  int lane = static_cast<int>(threadIdx.x) % 32;
  if (piece.index >= heads.normalised) {
    for (int64_t i = lane; i < piece.count; i += 32) {
      y[piece.begin + i] = x[piece.begin + i];
    }
    return;
  }
  const W* weight = piece.index < heads.q_heads ? q_weight : k_weight;
  float squares = 0;
  for (int64_t i = lane; i < piece.count; i += 32) {
    float value = to_float(x[piece.begin + i]);
    squares += value * value;
  }
  float scale = rsqrtf(warp_sum(squares) / static_cast<float>(heads.head_dim) + heads.epsilon);
  for (int64_t i = lane; i < piece.count; i += 32) {
    float normalised = to_float(round_to<T>(to_float(x[piece.begin + i]) * scale));
    y[piece.begin + i] = round_to<T>(normalised * to_float(weight[i]));
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
template <typename T, typename W>
__global__ void head_norm_backward_kernel(Heads heads, Backward<T, W> buffers) {
  Piece piece = own_piece(heads);
  if (piece.row >= heads.tokens) {
    return;
  }
  int lane = static_cast<int>(threadIdx.x) % 32;
  if (piece.index >= heads.normalised) {
    for (int64_t i = lane; i < piece.count; i += 32) {
      buffers.dx[piece.begin + i] = buffers.dy[piece.begin + i];
    }
    return;
  }
  const W* weight = piece.index < heads.q_heads ? buffers.q_weight : buffers.k_weight;
  float squares = 0;
  float dot = 0;
  for (int64_t i = lane; i < piece.count; i += 32) {
    float value = to_float(buffers.x[piece.begin + i]);
    squares += value * value;
    dot += to_float(buffers.dy[piece.begin + i]) * to_float(weight[i]) * value;
  }
  float width = static_cast<float>(heads.head_dim);
  float scale = rsqrtf(warp_sum(squares) / width + heads.epsilon);
  float pull = warp_sum(dot) * scale * scale / width;
  if (buffers.scales != nullptr && lane == 0) {
    buffers.scales[piece.row * heads.normalised + piece.index] = scale;
  }
  for (int64_t i = lane; i < piece.count; i += 32) {
    float gradient = to_float(buffers.dy[piece.begin + i]) * to_float(weight[i]);
    buffers.dx[piece.begin + i] =
        round_to<T>(scale * (gradient - to_float(buffers.x[piece.begin + i]) * pull));
  }
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
      head_norm_kernel<<<blocks_for(heads.tokens * heads.pieces, kWarps), kWarps * 32, 0, queue.stream>>>(
          heads, call.inputs[0].as<T>(), call.inputs[1].as<W>(), call.inputs[2].as<W>(),
          call.outputs[0].as<T>());
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
      head_norm_backward_kernel<<<blocks_for(heads.tokens * heads.pieces, kWarps), kWarps * 32, 0,
                                  queue.stream>>>(heads, buffers);
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
