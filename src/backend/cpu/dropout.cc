// Dropout: y (= or +=) x / (1 - p) where an element is kept, 0 where it is dropped (backend/dropout_mask.h).
// The gradient is this same op on dy, with the same random buffer and stream.
#include "backend/cpu/dispatch.h"
#include "backend/cpu/dropout_factors.h"
#include "backend/cpu/kernel_functions.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

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
  constexpr int64_t kElements = DropoutFactors::kElements;
  const Tensor& x = call.inputs[0];
  int64_t elements = x.elements();
  // Groups are counted from the step's first element; this micro-batch may begin within one.
  int64_t begin_in_step = call.inputs[1].as<int64_t>()[2] * x.columns();
  int64_t first_group = begin_in_step / kMaskGroup;
  int64_t lead = begin_in_step % kMaskGroup;
  int64_t runs = (lead + elements + kElements - 1) / kElements;
  with_type(x.dtype, [&](auto type) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      using T = typename decltype(type)::type;
      parallel_for(runs, kElementGrain / kElements, [&](int64_t first, int64_t last) {
        DropoutFactors mask(attributes_of<DropoutAttributes>(call.op), call.inputs[1]);
        for (int64_t run = first; run < last; ++run) {
          const float* factors =
              mask.make(static_cast<uint64_t>(first_group + run * DropoutFactors::kGroups));
          int64_t begin = run * kElements - lead;
          int64_t skipped = std::max<int64_t>(0, -begin);
          int64_t at = begin + skipped;
          int64_t count = std::min(begin + kElements, elements) - at;
          apply<decltype(accumulate)::value>(x.as<T>() + at, factors + skipped, call.outputs[0].as<T>() + at,
                                             count);
        }
      });
    });
  });
}

}  // namespace snug::cpu
