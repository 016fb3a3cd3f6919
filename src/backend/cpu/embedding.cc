// Looking up rows of a table, and adding gradients to them.
#include <fmt/format.h>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

int64_t checked_id(const int32_t* ids, int64_t token, int64_t vocabulary) {
  int64_t id = ids[token];
  SNUG_CHECK(id >= 0 && id < vocabulary,
             fmt::format("token {} has id {} in a vocabulary of {}", token, id, vocabulary));
  return id;
}

}  // namespace

// y[t] (= or +=) table[ids[t]]; threads share the tokens.
void embedding(const KernelCall& call) {
  const Tensor& table = call.inputs[0];
  const Tensor& y = call.outputs[0];
  const auto* ids = call.inputs[1].as<int32_t>();
  int64_t width = table.columns();
  with_type(table.dtype, [&](auto weight_type) {
    with_type(y.dtype, [&](auto activation) {
      with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
        using W = typename decltype(weight_type)::type;
        using T = typename decltype(activation)::type;
        parallel_for(y.rows(), row_grain(width), [&](int64_t first, int64_t last) {
          for (int64_t token = first; token < last; ++token) {
            const W* source = table.as<W>() + checked_id(ids, token, table.rows()) * width;
            T* destination = y.as<T>() + token * width;
#pragma omp simd
            for (int64_t i = 0; i < width; ++i) {
              store<decltype(accumulate)::value>(destination[i], to_float(source[i]));
            }
          }
        });
      });
    });
  });
}

// dtable[ids[t]] += dy[t], in fp32. Threads share the columns and each walks all tokens in order, so every
// element is summed in the same order on any number of threads and no two threads meet.
void embedding_backward(const KernelCall& call) {
  constexpr int64_t kColumnsAtOnce = 16;  // a cache line of fp32
  const Tensor& dy = call.inputs[1];
  const Tensor& dtable = call.outputs[0];
  SNUG_CHECK(dtable.dtype == DType::f32, "weight gradients are fp32");
  const auto* ids = call.inputs[0].as<int32_t>();
  int64_t width = dtable.columns();
  int64_t column_groups = (width + kColumnsAtOnce - 1) / kColumnsAtOnce;
  if (!call.op.accumulates_output(0)) {
    parallel_for(dtable.elements(), kElementGrain, [&](int64_t first, int64_t last) {
      std::fill(dtable.as<float>() + first, dtable.as<float>() + last, 0.0F);
    });
  }
  with_type(dy.dtype, [&](auto activation) {
    using T = typename decltype(activation)::type;
    int64_t grain = std::max<int64_t>(1, row_grain(dy.rows()) / kColumnsAtOnce);
    parallel_for(column_groups, grain, [&](int64_t first, int64_t last) {
      int64_t begin = first * kColumnsAtOnce;
      int64_t end = std::min(last * kColumnsAtOnce, width);
      for (int64_t token = 0; token < dy.rows(); ++token) {
        const T* source = dy.as<T>() + token * width;
        float* destination = dtable.as<float>() + checked_id(ids, token, dtable.rows()) * width;
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) {
          destination[i] += to_float(source[i]);
        }
      }
    });
  });
}

}  // namespace snug::cpu
