// Dropout: y (= or +=) x / (1 - p) where an element is kept, 0 where it is dropped. Which elements those are
// is said in backend/dropout_mask.h.
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"
#include "backend/dropout_mask.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

struct Mask {
  const int64_t* random;  // seed, step, first token
  uint64_t stream;
  uint32_t limit;
  float kept_scale;
};

// One thread a group of elements, counted from the step's first; this micro-batch may begin within one.
template <typename T>
__global__ void dropout_kernel(const T* x, T* y, int64_t elements, int64_t columns, Mask mask,
                               bool accumulate) {
  int64_t begin_in_step = mask.random[2] * columns;
  int64_t group = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  int64_t first = group * kMaskGroup - begin_in_step % kMaskGroup;
  if (first >= elements) {
    return;
  }
  auto words = mask_words(static_cast<uint64_t>(mask.random[0]), mask_stream(mask.stream, mask.random[1]),
                          static_cast<uint64_t>(begin_in_step / kMaskGroup + group));
  // A select, not a product with 0: a dropped infinity is 0, not NaN.
  auto kept = [&](int j, float value) {
    return mask_half(words[static_cast<size_t>(j / 2)], j) >= mask.limit ? value * mask.kept_scale : 0.0F;
  };
  if (first % kMaskGroup == 0 && first + kMaskGroup <= elements) {
    constexpr int kWidth = 16 / sizeof(T);
#pragma unroll
    for (int part = 0; part < kMaskGroup; part += kWidth) {
      Vector<T, kWidth> source = load<kWidth>(x + first + part);
      float values[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        values[j] = kept(part + j, to_float(source.at[j]));
      }
      write<kWidth>(y + first + part, values, accumulate);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kMaskGroup; ++j) {
    int64_t i = first + j;
    if (i >= 0 && i < elements) {
      float value[1] = {kept(j, to_float(x[i]))};
      write<1>(y + i, value, accumulate);
    }
  }
}

}  // namespace

// y may be x.
void dropout(const Queue& queue, const KernelCall& call) {
  const auto& attributes = attributes_of<DropoutAttributes>(call.op);
  SNUG_CHECK(attributes.probability >= 0 && attributes.probability < 1, "dropout probability in [0, 1)");
  const Tensor& x = call.inputs[0];
  int64_t elements = x.elements();
  if (elements == 0) {
    return;
  }
  Mask mask{.random = call.inputs[1].as<int64_t>(),
            .stream = attributes.stream,
            .limit = keep_limit(attributes.probability),
            .kept_scale = kept_scale(attributes.probability)};
  int64_t groups =
      elements / kMaskGroup + 2;  // one more at either end, where the batch begins within a group
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    dropout_kernel<<<blocks_for(groups, kThreads), kThreads, 0, queue.stream>>>(
        x.as<T>(), call.outputs[0].as<T>(), elements, x.columns(), mask, call.op.accumulates_output(0));
  });
  check_launch("dropout");
}

}  // namespace snug::cuda
