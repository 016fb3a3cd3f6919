// Ops that move or add elements: add, copy, fill, select_rows, cache_write.
#include <fmt/format.h>

#include <cstring>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

bool is_fast_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16;
}

template <typename T>
void fill_elements(const Tensor& tensor, T value) {
  T* data = tensor.as<T>();
  int64_t count = tensor.bytes() / static_cast<int64_t>(sizeof(T));  // codes have scales behind them
  parallel_for(count, kElementGrain,
               [&](int64_t first, int64_t last) { std::fill(data + first, data + last, value); });
}

void fill_tensor(const Tensor& tensor, float value) {
  switch (tensor.dtype) {
    case DType::f32:
      return fill_elements(tensor, value);
    case DType::bf16:
      return fill_elements(tensor, to_bf16(value));
    case DType::f16:
      return fill_elements(tensor, to_f16(value));
    case DType::f64:
      return fill_elements(tensor, static_cast<double>(value));
    case DType::i16:
      return fill_elements(tensor, static_cast<int16_t>(value));
    case DType::i32:
      return fill_elements(tensor, static_cast<int32_t>(value));
    case DType::i64:
      return fill_elements(tensor, static_cast<int64_t>(value));
    case DType::u8:
      return fill_elements(tensor, static_cast<uint8_t>(value));
  }
}

// y[i] (= or +=) x[i] between fp32 and bf16.
void copy_fast(const Tensor& x, const Tensor& y, bool accumulates) {
  with_type(x.dtype, [&](auto from) {
    with_type(y.dtype, [&](auto to) {
      with_flag(accumulates, [&](auto accumulate) {
        const auto* source = x.as<typename decltype(from)::type>();
        auto* destination = y.as<typename decltype(to)::type>();
        parallel_for(x.elements(), kElementGrain, [&](int64_t first, int64_t last) {
#pragma omp simd
          for (int64_t i = first; i < last; ++i) {
            store<decltype(accumulate)::value>(destination[i], to_float(source[i]));
          }
        });
      });
    });
  });
}

int64_t checked_row(const int32_t* rows, int64_t index, int64_t count) {
  int64_t row = rows[index];
  SNUG_CHECK(row >= 0 && row < count, fmt::format("entry {} names row {} of {}", index, row, count));
  return row;
}

}  // namespace

// y (= or +=) a + b, elementwise; y may be a or b.
void add(const KernelCall& call) {
  const Tensor& y = call.outputs[0];
  with_type(y.dtype, [&](auto type) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      using T = typename decltype(type)::type;
      const T* a = call.inputs[0].as<T>();
      const T* b = call.inputs[1].as<T>();
      T* sum = y.as<T>();
      parallel_for(y.elements(), kElementGrain, [&](int64_t first, int64_t last) {
#pragma omp simd
        for (int64_t i = first; i < last; ++i) {
          store<decltype(accumulate)::value>(sum[i], to_float(a[i]) + to_float(b[i]));
        }
      });
    });
  });
}

// y = x in y's dtype. += only between fp32 and bf16.
void copy(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  SNUG_CHECK(x.elements() == y.elements(), "copy between tensors of different sizes");
  bool accumulates = call.op.accumulates_output(0);
  if (is_fast_float(x.dtype) && is_fast_float(y.dtype) && (accumulates || x.dtype != y.dtype)) {
    copy_fast(x, y, accumulates);
    return;
  }
  SNUG_CHECK(!accumulates, "copy adds only fp32 and bf16");
  parallel_for(x.elements(), kElementGrain, [&](int64_t first, int64_t last) {
    const std::byte* source = x.as<std::byte>() + first * size_of(x.dtype);
    std::byte* destination = y.as<std::byte>() + first * size_of(y.dtype);
    convert(x.dtype, source, y.dtype, destination, last - first);
  });
}

// Every output = value, whatever its dtype.
void fill(const KernelCall& call) {
  SNUG_CHECK(call.op.accumulates == 0, "fill writes, it does not add");
  for (const Tensor& output : call.outputs) {
    if (output.data != nullptr) {
      fill_tensor(output, attributes_of<FillAttributes>(call.op).value);
    }
  }
}

// y[s] (= or +=) x[rows[s]].
void select_rows(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  const auto* rows = call.inputs[1].as<int32_t>();
  int64_t width = x.columns();
  with_type(x.dtype, [&](auto type) {
    with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
      using T = typename decltype(type)::type;
      parallel_for(y.rows(), row_grain(width), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          const T* source = x.as<T>() + checked_row(rows, row, x.rows()) * width;
          T* destination = y.as<T>() + row * width;
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) {
            store<decltype(accumulate)::value>(destination[i], to_float(source[i]));
          }
        }
      });
    });
  });
}

// cache[slots[t]] = x[t, source_column : source_column + columns of the cache]. Slots are distinct;
// the other rows of the cache keep what they hold.
void cache_write(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& cache = call.outputs[0];
  const auto* slots = call.inputs[1].as<int32_t>();
  int64_t width = cache.columns();
  int64_t source_column = attributes_of<CacheAttributes>(call.op).source_column;
  SNUG_CHECK(source_column + width <= x.columns(), "the cache keeps columns that x does not have");
  SNUG_CHECK(x.dtype == cache.dtype, "the cache has another dtype than what is written to it");
  int64_t element_bytes = size_of(x.dtype);
  parallel_for(x.rows(), row_grain(width), [&](int64_t first, int64_t last) {
    for (int64_t token = first; token < last; ++token) {
      const std::byte* source = x.as<std::byte>() + (token * x.columns() + source_column) * element_bytes;
      std::byte* row =
          cache.as<std::byte>() + checked_row(slots, token, cache.rows()) * width * element_bytes;
      std::memcpy(row, source, static_cast<size_t>(width * element_bytes));
    }
  });
}

}  // namespace snug::cpu
