// Dropout: y (= or +=) x / (1 - p) where an element is kept, 0 where it is dropped.
//
// The mask is never stored. Whether element c of token t is kept depends only on random = {seed, step, first
// token}, on the op's stream, and on the token's number within the whole optimizer step, first token + t:
// word c % 4 of philox(seed, stream ^ mix(step), (first token + t) * groups a row + c / 4), read as a
// fraction in [0, 1), is at least p. The gradient is therefore this same op on dy; a recomputed forward pass
// drops the same elements; and so does the same step split into other micro-batches.
#include <array>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "base/rng.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

// Spreads the counter over all bits, so that no counter with one stream meets another with another stream.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

// A run of calls of philox made at once, so that the compiler can vectorise over them.
constexpr int64_t kGroupsAtOnce = 64;
constexpr int64_t kElementsAtOnce = 4 * kGroupsAtOnce;

struct Mask {
  uint64_t seed;
  uint64_t stream;
  float probability;
  float kept_scale;

  // The factors 0 or 1 / (1 - p) of kElementsAtOnce elements from element 4 * first_group on.
  void factors(int64_t first_group, std::array<float, kElementsAtOnce>& out) const {
    float* factor = out.data();
#pragma omp simd
    for (int64_t group = 0; group < kGroupsAtOnce; ++group) {
      std::array<uint32_t, 4> words = philox(seed, stream, static_cast<uint64_t>(first_group + group));
      factor[4 * group] = unit_float(words[0]) >= probability ? kept_scale : 0.0F;
      factor[4 * group + 1] = unit_float(words[1]) >= probability ? kept_scale : 0.0F;
      factor[4 * group + 2] = unit_float(words[2]) >= probability ? kept_scale : 0.0F;
      factor[4 * group + 3] = unit_float(words[3]) >= probability ? kept_scale : 0.0F;
    }
  }
};

}  // namespace

// Threads share the tokens; y may be x.
void dropout(const KernelCall& call) {
  const auto& attributes = attributes_of<DropoutAttributes>(call.op);
  const auto* random = call.inputs[1].as<int64_t>();
  SNUG_CHECK(attributes.probability >= 0 && attributes.probability < 1, "dropout probability in [0, 1)");
  Mask mask{.seed = static_cast<uint64_t>(random[0]),
            .stream = attributes.stream ^ mix(static_cast<uint64_t>(random[1])),
            .probability = attributes.probability,
            .kept_scale = 1.0F / (1.0F - attributes.probability)};
  int64_t first_token = random[2];
  int64_t columns = call.inputs[0].columns();
  int64_t groups_per_row = (columns + 3) / 4;
  with_type(call.inputs[0].dtype, [&](auto type) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      using T = typename decltype(type)::type;
      const T* x = call.inputs[0].as<T>();
      T* y = call.outputs[0].as<T>();
      int64_t grain = std::max<int64_t>(kElementGrain / columns, 1);
      parallel_for(call.inputs[0].rows(), grain, [&](int64_t first, int64_t last) {
        std::array<float, kElementsAtOnce> factors;
        for (int64_t row = first; row < last; ++row) {
          for (int64_t column = 0; column < columns; column += kElementsAtOnce) {
            mask.factors((first_token + row) * groups_per_row + column / 4, factors);
            int64_t begin = row * columns + column;
            int64_t count = std::min(kElementsAtOnce, columns - column);
            const float* factor = factors.data();
#pragma omp simd
            for (int64_t i = 0; i < count; ++i) {
              // A select, not a product with 0: a dropped infinity is 0, not NaN.
              float kept = factor[i] == 0.0F ? 0.0F : to_float(x[begin + i]) * factor[i];
              store<decltype(accumulate)::value>(y[begin + i], kept);
            }
          }
        }
      });
    });
  });
}

}  // namespace snug::cpu
