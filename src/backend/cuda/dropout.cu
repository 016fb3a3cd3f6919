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
  float probability;
  float kept_scale;
};

// One thread a group of four elements, counted from the step's first; this micro-batch may begin within one.
template <typename T>
__global__ void dropout_kernel(const T* x, T* y, int64_t elements, int64_t columns, Mask mask,
                               bool accumulate) {
  int64_t begin_in_step = mask.random[2] * columns;
  int64_t group = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  int64_t first = group * 4 - begin_in_step % 4;
  if (first >= elements) {
    return;
  }
  auto seed = static_cast<uint64_t>(mask.random[0]);
  uint64_t stream = mask_stream(mask.stream, mask.random[1]);
  auto words = philox(seed, stream, static_cast<uint64_t>(begin_in_step / 4 + group));
  // A select, not a product with 0: a dropped infinity is 0, not NaN.
  auto kept = [&](int j, float value) {
    return unit_float(words[static_cast<size_t>(j)]) >= mask.probability ? value * mask.kept_scale : 0.0F;
  };
  if (first % 4 == 0 && first + 4 <= elements) {
    Vector<T, 4> source = load<4>(x + first);
    float values[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      values[j] = kept(j, to_float(source.at[j]));
    }
    write<4>(y + first, values, accumulate);
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
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
            .probability = attributes.probability,
            .kept_scale = kept_scale(attributes.probability)};
  int64_t groups = elements / 4 + 2;  // one more at either end, where the batch begins within a group
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    dropout_kernel<<<blocks_for(groups, kThreads), kThreads, 0, queue.stream>>>(
        x.as<T>(), call.outputs[0].as<T>(), elements, x.columns(), mask, call.op.accumulates_output(0));
  });
  check_launch("dropout");
}

}  // namespace snug::cuda
