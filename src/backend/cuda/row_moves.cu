// Ops of generation that move rows: select_rows, cache_write. One block a row. A row number outside its table
// is a mistake of the program that wrote it: the kernel stops the run.
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
__global__ void select_kernel(const T* x, const int32_t* rows, T* y, int64_t width, int64_t count,
                              bool accumulate) {
  int64_t row = rows[blockIdx.x];
  if (row < 0 || row >= count) {
    __trap();
  }
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    float value[1] = {to_float(x[row * width + i])};
    write<1>(y + static_cast<int64_t>(blockIdx.x) * width + i, value, accumulate);
  }
}

struct CacheRows {
  int64_t x_columns;
  int64_t source_column;
  int64_t width;
  int64_t count;
};

template <typename Word>
__global__ void cache_kernel(const Word* x, const int32_t* slots, Word* cache, CacheRows rows) {
  int64_t slot = slots[blockIdx.x];
  if (slot < 0 || slot >= rows.count) {
    __trap();
  }
  const Word* source = x + static_cast<int64_t>(blockIdx.x) * rows.x_columns + rows.source_column;
  for (int64_t i = threadIdx.x; i < rows.width; i += kThreads) {
    cache[slot * rows.width + i] = source[i];
  }
}

}  // namespace

// y[s] (= or +=) x[rows[s]].
void select_rows(const Queue& queue, const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  if (y.rows() == 0) {
    return;
  }
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    select_kernel<<<static_cast<unsigned>(y.rows()), kThreads, 0, queue.stream>>>(
        x.as<T>(), call.inputs[1].as<int32_t>(), y.as<T>(), x.columns(), x.rows(),
        call.op.accumulates_output(0));
  });
  check_launch("selecting rows");
}

// cache[slots[t]] = x[t, source_column : source_column + columns of the cache]. Slots are distinct; the other
// rows of the cache keep what they hold.
void cache_write(const Queue& queue, const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& cache = call.outputs[0];
  CacheRows rows{x.columns(), attributes_of<CacheAttributes>(call.op).source_column, cache.columns(),
                 cache.rows()};
  SNUG_CHECK(rows.source_column + rows.width <= rows.x_columns,
             "the cache keeps columns that x does not have");
  SNUG_CHECK(x.dtype == cache.dtype, "the cache has another dtype than what is written to it");
  if (x.rows() == 0) {
    return;
  }
  auto launch = [&](auto word) {
    using Word = decltype(word);
    cache_kernel<<<static_cast<unsigned>(x.rows()), kThreads, 0, queue.stream>>>(
        x.as<Word>(), call.inputs[1].as<int32_t>(), cache.as<Word>(), rows);
  };
  if (size_of(x.dtype) == 2) {
    launch(uint16_t{});
  } else {
    SNUG_CHECK(size_of(x.dtype) == 4, "a cache holds fp32, bf16 or fp16");
    launch(uint32_t{});
  }
  check_launch("writing the cache");
}

}  // namespace snug::cuda
