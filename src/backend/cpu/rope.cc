// Rotary position embedding in Hugging Face's layout: within each head, element i is paired with element
// i + head_dim / 2, and the pair is turned by the angle position * inverse_frequencies[i].
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/rotation.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

// Wider heads are turned in pieces of this many pairs.
constexpr int64_t kPairsAtOnce = 512;

// The turn of one token's pairs from `first` on, the same for all its heads.
struct Turn {
  int64_t first = 0;
  int64_t count = 0;
  std::array<float, kPairsAtOnce> cosine;
  std::array<float, kPairsAtOnce> sine;

  // The angle is a product of two floats, as in Hugging Face's code: rounding it differently would turn
  // far positions by visibly other angles.
  void set(int64_t token, const Rotation& rotation) {
    for (int64_t i = 0; i < count; ++i) {
      float angle = static_cast<float>(rotation.positions[token]) * rotation.frequencies[first + i];
      auto at = static_cast<size_t>(i);
      cosine[at] = std::cos(angle) * rotation.magnitude;
      sine[at] = std::sin(angle) * rotation.magnitude * rotation.direction;
    }
  }
};

// x and y: the head's elements from the turn's first pair on; their partners lie `pairs` further.
template <bool kAccumulate, typename T>
void turn_head(const T* x, T* y, const Turn& turn, int64_t pairs) {
  const float* cosine = turn.cosine.data();
  const float* sine = turn.sine.data();
#pragma omp simd
  for (int64_t i = 0; i < turn.count; ++i) {
    float low = to_float(x[i]);
    float high = to_float(x[i + pairs]);
    store<kAccumulate>(y[i], low * cosine[i] - high * sine[i]);
    store<kAccumulate>(y[i + pairs], high * cosine[i] + low * sine[i]);
  }
}

}  // namespace

template <bool kAccumulate, typename T>
[[gnu::noinline]] void Rotation::turn(int64_t token, const T* x, T* y) const {
  Turn turn;
  int64_t pairs = head_dim / 2;
  for (turn.first = 0; turn.first < pairs; turn.first += kPairsAtOnce) {
    turn.count = std::min(kPairsAtOnce, pairs - turn.first);
    turn.set(token, *this);
    for (int64_t column = turn.first; column < turned_columns; column += head_dim) {
      turn_head<kAccumulate>(x + column, y + column, turn, pairs);
    }
  }
  if (x == y && !kAccumulate) {
    return;  // the other columns are there already
  }
  for (int64_t column = turned_columns; column < columns; ++column) {
    store<kAccumulate>(y[column], to_float(x[column]));
  }
}

template void Rotation::turn<false>(int64_t, const float*, float*) const;
template void Rotation::turn<true>(int64_t, const float*, float*) const;
template void Rotation::turn<false>(int64_t, const bf16_t*, bf16_t*) const;
template void Rotation::turn<true>(int64_t, const bf16_t*, bf16_t*) const;

// y (= or +=) x with its first rotated_heads heads turned; the other columns are taken over. The inverse
// turns back and scales by the same magnitude: it is the gradient. Threads share the tokens; y may be x.
void rope(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const auto& attributes = attributes_of<RopeAttributes>(call.op);
  Rotation rotation{.positions = call.inputs[1].as<int32_t>(),
                    .frequencies = call.inputs[2].as<float>(),
                    .head_dim = attributes.head_dim,
                    .columns = x.columns(),
                    .turned_columns = attributes.rotated_heads * attributes.head_dim,
                    .magnitude = attributes.magnitude,
                    .direction = attributes.inverse ? -1.0F : 1.0F};
  SNUG_CHECK(rotation.turned_columns <= rotation.columns, "more heads to rotate than columns");
  with_type(x.dtype, [&](auto activation) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      using T = typename decltype(activation)::type;
      parallel_for(x.rows(), row_grain(rotation.columns), [&](int64_t first, int64_t last) {
        for (int64_t token = first; token < last; ++token) {
          int64_t begin = token * rotation.columns;
          rotation.turn<decltype(accumulate)::value>(token, x.as<T>() + begin,
                                                     call.outputs[0].as<T>() + begin);
        }
      });
    });
  });
}

}  // namespace snug::cpu
