// Dropout: y (= or +=) x / (1 - p) where an element is kept, 0 where it is dropped.
//
// The mask is never stored. random = {seed, step, first token}: the first token says where this micro-batch
// begins within the step, so that cutting a step into other micro-batches drops the same elements. Whether
// the element in column c of row t is kept depends only on these three values, on the op's stream and on
// i = (first token + t) * columns + c: word i % 4 of philox(seed, stream ^ mix(step), i / 4), read as a
// fraction in [0, 1), is at least p. The gradient is therefore this same op on dy, with the same random
// buffer and stream, and a recomputed forward pass drops the same elements.
#include <array>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/philox_lanes.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

// Spreads the step over all bits, so that no step with one stream meets another with another stream.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

constexpr auto kGroupsAtOnce = static_cast<int64_t>(PhiloxLanes::kLanes);
constexpr int64_t kElementsAtOnce = 4 * kGroupsAtOnce;

// The factor of element 4 * i + word is kept_scale where its fraction is at least p, else 0.
void write_factors(const PhiloxLanes& lanes, float probability, float kept_scale, float* factors) {
  for (size_t i = 0; i < PhiloxLanes::kLanes; ++i) {
    for (size_t word = 0; word < 4; ++word) {
      // As a signed integer, because AVX2 converts those; 24 bits are the same either way.
      float fraction = static_cast<float>(static_cast<int32_t>(lanes.words[word][i] >> 8)) * 0x1p-24F;
      factors[4 * i + word] = fraction >= probability ? kept_scale : 0.0F;
    }
  }
}

// y[i] (= or +=) x[i] * factor[i] for `count` elements.
template <bool kAccumulate, typename T>
void apply(const T* x, const float* factor, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    // A select, not a product with 0: a dropped infinity is 0, not NaN.
    float scaled = to_float(x[i]) * factor[i];
    store<kAccumulate>(y[i], factor[i] == 0.0F ? 0.0F : scaled);
  }
}

}  // namespace

// Threads share the tokens; y may be x.
void dropout(const KernelCall& call) {
  const auto& attributes = attributes_of<DropoutAttributes>(call.op);
  const auto* random = call.inputs[1].as<int64_t>();
  SNUG_CHECK(attributes.probability >= 0 && attributes.probability < 1, "dropout probability in [0, 1)");
  const Tensor& x = call.inputs[0];
  auto seed = static_cast<uint64_t>(random[0]);
  uint64_t stream = attributes.stream ^ mix(static_cast<uint64_t>(random[1]));
  float kept_scale = 1.0F / (1.0F - attributes.probability);
  int64_t elements = x.elements();
  // Groups of four are counted from the step's first element; this micro-batch may begin within one.
  int64_t begin_in_step = random[2] * x.columns();
  int64_t first_group = begin_in_step / 4;
  int64_t lead = begin_in_step % 4;
  int64_t runs = (lead + elements + kElementsAtOnce - 1) / kElementsAtOnce;
  with_type(x.dtype, [&](auto type) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      using T = typename decltype(type)::type;
      parallel_for(runs, kElementGrain / kElementsAtOnce, [&](int64_t first, int64_t last) {
        PhiloxLanes lanes;
        std::array<float, kElementsAtOnce> factors;
        for (int64_t run = first; run < last; ++run) {
          lanes.run(seed, stream, static_cast<uint64_t>(first_group + run * kGroupsAtOnce));
          write_factors(lanes, attributes.probability, kept_scale, factors.data());
          int64_t begin = run * kElementsAtOnce - lead;
          int64_t skipped = std::max<int64_t>(0, -begin);
          int64_t at = begin + skipped;
          int64_t count = std::min(begin + kElementsAtOnce, elements) - at;
          apply<decltype(accumulate)::value>(x.as<T>() + at, factors.data() + skipped,
                                             call.outputs[0].as<T>() + at, count);
        }
      });
    });
  });
}

}  // namespace snug::cpu
