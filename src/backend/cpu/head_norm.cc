// head_norm: the arithmetic of rms_norm on each query and key head of a row; the values are copied. In
// head_norm_rope the row, still in the cache, is turned by its position, and its gradient turned back first.
#include <optional>

#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/norm_rows.h"
#include "backend/cpu/rotation.h"
#include "program/operands.h"

namespace snug::cpu {
namespace {

struct Heads {
  int64_t q_heads;
  int64_t normalised_heads;  // queries and keys
  int64_t head_dim;
  float epsilon;
};

Heads heads_of(const KernelCall& call) {
  const auto& attributes = attributes_of<HeadNormAttributes>(call.op);
  return {attributes.q_heads, attributes.q_heads + attributes.k_heads, call.inputs[1].rows(),
          attributes.epsilon};
}

// Of all heads that are normalised. `place`: of the positions among the inputs; the frequencies follow.
Rotation rotation_of(const KernelCall& call, size_t place, float direction) {
  Heads heads = heads_of(call);
  return {.positions = call.inputs[place].as<int32_t>(),
          .frequencies = call.inputs[place + 1].as<float>(),
          .head_dim = heads.head_dim,
          .columns = call.inputs[0].columns(),
          .turned_columns = heads.normalised_heads * heads.head_dim,
          .magnitude = attributes_of<HeadNormAttributes>(call.op).magnitude,
          .direction = direction};
}

// y may be x.
template <typename T, typename W>
void forward_row(const KernelCall& call, const Heads& heads, const T* x, T* y) {
  int64_t columns = call.inputs[0].columns();
  int64_t normalised = heads.normalised_heads * heads.head_dim;
  for (int64_t head = 0; head < heads.normalised_heads; ++head) {
    const W* weight = call.inputs[head < heads.q_heads ? 1 : 2].as<W>();
    int64_t column = head * heads.head_dim;
    norm_row<false>(x + column, weight, y + column, heads.head_dim, heads.epsilon);
  }
  if (x != y) {
    std::copy(x + normalised, x + columns, y + normalised);
  }
}

void forward(const KernelCall& call, const std::optional<Rotation>& rotation) {
  Heads heads = heads_of(call);
  int64_t columns = call.inputs[0].columns();
  with_type(call.inputs[0].dtype, [&](auto activation) {
    with_type(call.inputs[1].dtype, [&](auto weight_type) {
      using T = typename decltype(activation)::type;
      using W = typename decltype(weight_type)::type;
      parallel_for(call.inputs[0].rows(), row_grain(columns), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          T* y = call.outputs[0].as<T>() + row * columns;
          forward_row<T, W>(call, heads, call.inputs[0].as<T>() + row * columns, y);
          if (rotation) {
            rotation->turn<false>(row, y, y);
          }
        }
      });
    });
  });
}

// The gradient of one row. dx may be dy. `sums`: of wq's gradient, then of wk's.
template <typename T, typename W>
void backward_row(const KernelCall& call, const Heads& heads, int64_t row, const T* dy, float* sums) {
  int64_t columns = call.inputs[0].columns();
  int64_t normalised = heads.normalised_heads * heads.head_dim;
  const T* x = call.inputs[0].as<T>() + row * columns;
  T* dx = call.outputs[0].as<T>() + row * columns;
  for (int64_t head = 0; head < heads.normalised_heads; ++head) {
    bool is_query = head < heads.q_heads;
    int64_t column = head * heads.head_dim;
    BackwardRow<T, W> work{.x = x + column,
                           .weight = call.inputs[is_query ? 1 : 2].as<W>(),
                           .dy = dy + column,
                           .dx = dx + column,
                           .dw_block = sums + (is_query ? 0 : heads.head_dim),
                           .width = heads.head_dim,
                           .epsilon = heads.epsilon};
    work.template run<false>();
  }
  if (dx != dy) {
    std::copy(dy + normalised, dy + columns, dx + normalised);
  }
}

struct Rows {
  int64_t first;
  int64_t last;
};

template <typename T, typename W>
void backward_block(const KernelCall& call, const std::optional<Rotation>& rotation, Rows rows, float* sums) {
  Heads heads = heads_of(call);
  int64_t columns = call.inputs[0].columns();
  for (int64_t row = rows.first; row < rows.last; ++row) {
    const T* dy = call.inputs[HeadNormBackwardInput::dy].as<T>() + row * columns;
    if (rotation) {
      T* turned = call.outputs[0].as<T>() + row * columns;
      rotation->turn<false>(row, dy, turned);
      dy = turned;
    }
    backward_row<T, W>(call, heads, row, dy, sums);
  }
}

void backward(const KernelCall& call, const std::optional<Rotation>& rotation) {
  Heads heads = heads_of(call);
  int64_t tokens = call.inputs[0].rows();
  int64_t blocks = block_count(tokens);
  auto* sums = reinterpret_cast<float*>(call.workspace.data());
  with_type(call.inputs[0].dtype, [&](auto activation) {
    with_type(call.inputs[1].dtype, [&](auto weight_type) {
      using T = typename decltype(activation)::type;
      using W = typename decltype(weight_type)::type;
      parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t block = first; block < last; ++block) {
          float* own = sums + block * 2 * heads.head_dim;
          std::fill_n(own, 2 * heads.head_dim, 0.0F);
          Rows rows{tokens * block / blocks, tokens * (block + 1) / blocks};
          backward_block<T, W>(call, rotation, rows, own);
        }
      });
    });
  });
  for (int64_t which = 0; which < 2; ++which) {
    const Tensor& dw = call.outputs[static_cast<size_t>(1 + which)];
    if (dw.data == nullptr) {
      continue;
    }
    bool accumulate = call.op.accumulates_output(static_cast<size_t>(1 + which));
    for (int64_t i = 0; i < heads.head_dim; ++i) {
      float total = accumulate ? dw.as<float>()[i] : 0.0F;
      for (int64_t block = 0; block < blocks; ++block) {
        total += sums[(2 * block + which) * heads.head_dim + i];
      }
      dw.as<float>()[i] = total;
    }
  }
}

}  // namespace

void head_norm(const KernelCall& call) {
  forward(call, std::nullopt);
}

void head_norm_rope(const KernelCall& call) {
  forward(call, rotation_of(call, HeadNormRopeInput::positions, 1.0F));
}

// Blocks of tokens, each with its sums for both weights; the first two rows take the totals.
int64_t head_norm_backward_workspace(const Program& program, const Op& op, int /*threads*/) {
  int64_t head_dim = program.buffer(op.inputs[1]).dims[0].max;
  return block_count(program.buffer(op.inputs[0]).dims[0].max) * 2 * head_dim *
         static_cast<int64_t>(sizeof(float));
}

// dx =, dwq (= or +=), dwk (= or +=).
void head_norm_backward(const KernelCall& call) {
  backward(call, std::nullopt);
}

void head_norm_rope_backward(const KernelCall& call) {
  backward(call, rotation_of(call, HeadNormBackwardInput::positions, -1.0F));
}

}  // namespace snug::cpu
