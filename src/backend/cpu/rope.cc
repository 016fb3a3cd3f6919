// Rotary position embedding in Hugging Face's layout: within each head, element i is paired with element
// i + head_dim / 2, and the pair is turned by the angle position * inverse_frequencies[i].
#include <array>
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

constexpr int64_t kMostPairs = 512;  // head_dim up to 1024

// The turn of one token, the same for all its heads.
struct Turn {
  std::array<float, kMostPairs> cosine;
  std::array<float, kMostPairs> sine;

  // The angle is a product of two floats, as in Hugging Face's code: rounding it differently would turn
  // far positions by visibly other angles.
  void set(int32_t position, const float* frequencies, int64_t pairs, const RopeAttributes& attributes) {
    float direction = attributes.inverse ? -1.0F : 1.0F;
    for (int64_t i = 0; i < pairs; ++i) {
      float angle = static_cast<float>(position) * frequencies[i];
      auto at = static_cast<size_t>(i);
      cosine[at] = std::cos(angle) * attributes.magnitude;
      sine[at] = std::sin(angle) * attributes.magnitude * direction;
    }
  }
};

template <bool kAccumulate, typename T>
void turn_head(const T* x, T* y, const Turn& turn, int64_t pairs) {
  const float* cosine = turn.cosine.data();
  const float* sine = turn.sine.data();
#pragma omp simd
  for (int64_t i = 0; i < pairs; ++i) {
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
  SNUG_CHECK(pairs <= kMostPairs, "heads are wider than the rope kernel's table");
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
          turn.set(positions[token], frequencies, pairs, attributes);
          for (int64_t column = 0; column < turned_columns; column += attributes.head_dim) {
            turn_head<kAccumulate>(source + column, destination + column, turn, pairs);
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
