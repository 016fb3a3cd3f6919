// Looking up rows of a table, and adding gradients to them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/scratch.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

int64_t checked_id(const int32_t* ids, int64_t token, int64_t vocabulary) {
  int64_t id = ids[token];
  SNUG_CHECK(id >= 0 && id < vocabulary,
             fmt::format("token {} has id {} in a vocabulary of {}", token, id, vocabulary));
  return id;
}

constexpr int64_t kColumnsAtOnce = 16;  // a cache line of fp32

struct Columns {
  int64_t begin;
  int64_t end;
};

// An fp32 gradient is added to as the tokens come.
template <typename T>
void add_tokens(const KernelCall& call, const Columns& columns) {
  const Tensor& dy = call.inputs[1];
  const Tensor& dtable = call.outputs[0];
  const auto* ids = call.inputs[0].as<int32_t>();
  for (int64_t token = 0; token < dy.rows(); ++token) {
    const T* source = dy.as<T>() + token * dy.columns();
    float* destination = dtable.as<float>() + checked_id(ids, token, dtable.rows()) * dy.columns();
#pragma omp simd
    for (int64_t i = columns.begin; i < columns.end; ++i) {
      destination[i] += to_float(source[i]);
    }
  }
}

// All tokens, those of one id side by side and in order.
std::span<const int32_t> tokens_by_id(const Tensor& ids, int32_t* order) {
  std::span<int32_t> tokens(order, static_cast<size_t>(ids.elements()));
  std::iota(tokens.begin(), tokens.end(), 0);
  std::sort(tokens.begin(), tokens.end(), [id = ids.as<int32_t>()](int32_t a, int32_t b) {
    return std::pair(id[a], a) < std::pair(id[b], b);
  });
  return tokens;
}

// A bf16 gradient is rounded once: all tokens of an id are summed first.
template <typename T>
void add_runs(const KernelCall& call, std::span<const int32_t> order, const Columns& columns) {
  const Tensor& dy = call.inputs[1];
  const Tensor& dtable = call.outputs[0];
  const auto* ids = call.inputs[0].as<int32_t>();
  for (int64_t begin = columns.begin; begin < columns.end; begin += kColumnsAtOnce) {
    int64_t count = std::min(kColumnsAtOnce, columns.end - begin);
    for (size_t first = 0; first < order.size();) {
      int64_t id = checked_id(ids, order[first], dtable.rows());
      std::array<float, kColumnsAtOnce> sums{};
      size_t next = first;
      for (; next < order.size() && ids[order[next]] == id; ++next) {
        const T* source = dy.as<T>() + order[next] * dy.columns() + begin;
        for (int64_t i = 0; i < count; ++i) {
          sums[static_cast<size_t>(i)] += to_float(source[i]);
        }
      }
      bf16_t* destination = dtable.as<bf16_t>() + id * dy.columns() + begin;
      for (int64_t i = 0; i < count; ++i) {
        store<true>(destination[i], sums[static_cast<size_t>(i)]);
      }
      first = next;
    }
  }
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

// dtable[ids[t]] (= or +=) dy[t]. Threads share the columns and each walks all tokens in order, so every
// element is summed in the same order on any number of threads and no two threads meet.
void embedding_backward(const KernelCall& call) {
  const Tensor& dy = call.inputs[1];
  const Tensor& dtable = call.outputs[0];
  int64_t width = dtable.columns();
  int64_t column_groups = (width + kColumnsAtOnce - 1) / kColumnsAtOnce;
  if (!call.op.accumulates_output(0)) {
    parallel_for(dtable.bytes(), kElementGrain, [&](int64_t first, int64_t last) {
      std::fill(dtable.as<std::byte>() + first, dtable.as<std::byte>() + last, std::byte{0});
    });
  }
  bool is_rounded = dtable.dtype == DType::bf16;
  std::span<const int32_t> order;
  if (is_rounded) {
    order = tokens_by_id(call.inputs[0], Scratch(call.workspace).take<int32_t>(dy.rows()));
  }
  with_type(dy.dtype, [&](auto activation) {
    using T = typename decltype(activation)::type;
    int64_t grain = std::max<int64_t>(1, row_grain(dy.rows()) / kColumnsAtOnce);
    parallel_for(column_groups, grain, [&](int64_t first, int64_t last) {
      Columns columns{first * kColumnsAtOnce, std::min(last * kColumnsAtOnce, width)};
      if (is_rounded) {
        add_runs<T>(call, order, columns);
      } else {
        add_tokens<T>(call, columns);
      }
    });
  });
}

int64_t embedding_backward_workspace(const Program& program, const Op& op, int /*threads*/) {
  bool is_rounded = program.buffer(op.outputs[0]).format == DType::bf16;
  return is_rounded ? padded_bytes_of<int32_t>(program.buffer(op.inputs[0]).dims[0].max) : 0;
}

}  // namespace snug::cpu
