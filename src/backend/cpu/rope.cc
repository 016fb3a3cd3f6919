// Rotary position embedding in Hugging Face's layout: within each head, element i is paired with element
// i + head_dim / 2, and the pair is turned by the angle position * inverse_frequencies[i].
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
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
  void set(int32_t position, const float* frequencies, const RopeAttributes& attributes) {
    float direction = attributes.inverse ? -1.0F : 1.0F;
    for (int64_t i = 0; i < count; ++i) {
      float angle = static_cast<float>(position) * frequencies[first + i];
      auto at = static_cast<size_t>(i);
      cosine[at] = std::cos(angle) * attributes.magnitude;
      sine[at] = std::sin(angle) * attributes.magnitude * direction;
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

// y (= or +=) x with its first rotated_heads heads turned; the other columns are taken over. The inverse
// turns back and scales by the same magnitude: it is the gradient. Threads share the tokens; y may be x.
void rope(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const auto& attributes = attributes_of<RopeAttributes>(call.op);
  const auto* positions = call.inputs[1].as<int32_t>();
  const auto* frequencies = call.inputs[2].as<float>();
  int64_t columns = x.columns();
  int64_t pairs = attributes.head_dim / 2;
  int64_t turned_columns = attributes.rotated_heads * attributes.head_dim;
  SNUG_CHECK(turned_columns <= columns, "more heads to rotate than columns");
  with_type(x.dtype, [&](auto activation) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      using T = typename decltype(activation)::type;
      constexpr bool kAccumulate = decltype(accumulate)::value;
      parallel_for(x.rows(), row_grain(columns), [&](int64_t first, int64_t last) {
        Turn turn;
        for (int64_t token = first; token < last; ++token) {
          const T* source = x.as<T>() + token * columns;
          T* destination = call.outputs[0].as<T>() + token * columns;
          for (turn.first = 0; turn.first < pairs; turn.first += kPairsAtOnce) {
            turn.count = std::min(kPairsAtOnce, pairs - turn.first);
            turn.set(positions[token], frequencies, attributes);
            for (int64_t column = turn.first; column < turned_columns; column += attributes.head_dim) {
              turn_head<kAccumulate>(source + column, destination + column, turn, pairs);
            }
          }
          for (int64_t column = turned_columns; column < columns; ++column) {
            store<kAccumulate>(destination[column], to_float(source[column]));
          }
        }
      });
    });
  });
}

}  // namespace snug::cpu
