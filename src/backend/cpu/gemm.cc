// Splits C over the threads; each thread calls the single-threaded CBLAS on its own part.
#include "backend/cpu/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/rows.h"
#include "backend/cpu/scratch.h"
#include "backend/quantise.h"
#include "base/addressable.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

// Blocks of operands that are not fp32. With the first, each converted number is used in 384 products:
// converting costs little beside them, and the three blocks of one thread stay near its second-level cache.
// Where many threads share the scratch memory, blocks are smaller.
struct Blocks {
  int64_t rows_and_columns;
  int64_t inner;
};
constexpr std::array<Blocks, 4> kBlocks = {{{384, 256}, {192, 256}, {96, 128}, {64, 64}}};
// Below this many multiplications another thread costs more than it brings.
constexpr int64_t kParallelWork = 1 << 20;
// Products of this many rows or fewer (decoding) are dot products over a streamed weight.
constexpr int64_t kFewRows = 4;

int64_t inner_size(const Gemm& product) {
  return product.transpose_a ? product.a.rows : product.a.columns;
}

// The part of the product that makes C's given block.
Gemm part_of(const Gemm& product, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  Gemm part = product;
  part.a = product.transpose_a ? product.a.column_block(row, rows) : product.a.row_block(row, rows);
  part.b =
      product.transpose_b ? product.b.row_block(column, columns) : product.b.column_block(column, columns);
  part.c = product.c.block(row, column, rows, columns);
  part.bias = product.bias == nullptr ? nullptr : product.bias + column;
  return part;
}

// Keeps OpenBLAS on the calling thread: the threads are ours. Its OpenMP flavour has that setting once a
// thread, and none of its flavours may be told by two threads at once.
void compute_alone() {
  thread_local bool told = false;
  if (!told) {
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    openblas_set_num_threads(1);
    told = true;
  }
}

// All three in fp32: C = alpha A B + beta C.
void multiply_floats(const Gemm& product, float beta) {
  compute_alone();
  auto k = static_cast<int>(inner_size(product));
  cblas_sgemm(CblasRowMajor, product.transpose_a ? CblasTrans : CblasNoTrans,
              product.transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(product.c.rows),
              static_cast<int>(product.c.columns), k, product.alpha, static_cast<float*>(product.a.data),
              static_cast<int>(product.a.stride), static_cast<float*>(product.b.data),
              static_cast<int>(product.b.stride), beta, static_cast<float*>(product.c.data),
              static_cast<int>(product.c.stride));
}

// What C holds before the products are added to it: its old value, the bias, both or neither.
void start_block(const Gemm& product, float* block, int64_t stride) {
  for (int64_t i = 0; i < product.c.rows; ++i) {
    float* row = block + i * stride;
    if (!product.accumulate) {
      std::fill_n(row, product.c.columns, 0.0F);
    } else if (block != product.c.data) {
      load_block(product.c.row_block(i, 1), row, stride);
    }
    if (product.bias != nullptr) {
      for (int64_t j = 0; j < product.c.columns; ++j) {
        row[j] += product.bias[j];
      }
    }
  }
}

// One block of C with all of k, through fp32 copies of what is not.
void multiply_block(const Gemm& product, int64_t inner, float* a_block, float* b_block, float* c_block) {
  MatrixView c = product.c;
  if (c.dtype != DType::f32) {
    c = {c_block, DType::f32, c.rows, c.columns, c.columns};
  }
  start_block(product, static_cast<float*>(c.data), c.stride);
  int64_t k = inner_size(product);
  for (int64_t p = 0; p < k; p += inner) {
    int64_t depth = std::min(inner, k - p);
    Gemm step = product;
    step.a = as_floats(product.transpose_a ? product.a.row_block(p, depth) : product.a.column_block(p, depth),
                       a_block);
    step.b = as_floats(product.transpose_b ? product.b.column_block(p, depth) : product.b.row_block(p, depth),
                       b_block);
    step.c = c;
    multiply_floats(step, 1.0F);
  }
  if (product.c.dtype != DType::f32) {
    store_block(c_block, c.stride, product.c);
  }
}

int64_t block_bytes(const Format& format, int64_t rows, int64_t columns) {
  return format == DType::f32 ? 0 : padded_bytes_of<float>(rows * columns);
}

// Grows with every size, so that a part of a product never needs more than was planned for the whole.
int64_t thread_workspace_bytes(const GemmSizes& sizes, const Blocks& blocks) {
  int64_t m = std::min(sizes.m, blocks.rows_and_columns);
  int64_t n = std::min(sizes.n, blocks.rows_and_columns);
  int64_t k = std::min(sizes.k, blocks.inner);
  return block_bytes(sizes.a, m, k) + block_bytes(sizes.b, k, n) + block_bytes(sizes.c, m, n);
}

// The largest blocks of which every thread has its own within so many bytes.
const Blocks& blocks_within(int64_t bytes, const GemmSizes& sizes, int64_t threads) {
  auto fits = [&](const Blocks& blocks) { return threads * thread_workspace_bytes(sizes, blocks) <= bytes; };
  auto found = std::find_if(kBlocks.begin(), kBlocks.end(), fits);
  return found != kBlocks.end() ? *found : kBlocks.back();
}

template <typename A, typename B>
float dot(const A* a, const B* b, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    sum += to_float(a[i]) * to_float(b[i]);
  }
  return sum;
}

// C = alpha A B^T for few rows of A: B is read once, straight from its storage.
void multiply_few_rows(const Gemm& product) {
  const MatrixView& c = product.c;
  with_type(product.a.dtype, [&](auto a_tag) {
    using A = typename decltype(a_tag)::type;
    with_type(product.b.dtype, [&](auto b_tag) {
      using B = typename decltype(b_tag)::type;
      with_type(c.dtype, [&](auto c_tag) {
        using C = typename decltype(c_tag)::type;
        for (int64_t j = 0; j < c.columns; ++j) {
          const B* b = static_cast<const B*>(product.b.at(j, 0));
          float bias = product.bias == nullptr ? 0.0F : product.bias[j];
          for (int64_t i = 0; i < c.rows; ++i) {
            float value =
                product.alpha * dot(static_cast<const A*>(product.a.at(i, 0)), b, product.a.columns) + bias;
            C& destination = *static_cast<C*>(c.at(i, j));
            destination = round_to<C>(product.accumulate ? to_float(destination) + value : value);
          }
        }
      });
    });
  });
}

void multiply_part(const Gemm& product, const Blocks& blocks, std::span<std::byte> workspace) {
  int64_t m = product.c.rows;
  int64_t n = product.c.columns;
  int64_t k = inner_size(product);
  if (m <= kFewRows && !product.transpose_a && product.transpose_b && product.b.codes == nullptr &&
      product.a.rounding == nullptr) {
    multiply_few_rows(product);
    return;
  }
  if (product.a.is_fp32() && product.b.is_fp32() && product.c.is_fp32()) {
    if (product.bias != nullptr) {
      start_block(product, static_cast<float*>(product.c.data), product.c.stride);
    }
    multiply_floats(product, product.bias != nullptr || product.accumulate ? 1.0F : 0.0F);
    return;
  }
  int64_t block_m = std::min(m, blocks.rows_and_columns);
  int64_t block_n = std::min(n, blocks.rows_and_columns);
  int64_t block_k = std::min(k, blocks.inner);
  Scratch scratch(workspace);
  float* a_block = scratch.take<float>(product.a.is_fp32() ? 0 : block_m * block_k);
  float* b_block = scratch.take<float>(product.b.is_fp32() ? 0 : block_k * block_n);
  float* c_block = scratch.take<float>(product.c.is_fp32() ? 0 : block_m * block_n);
  for (int64_t i = 0; i < m; i += block_m) {
    for (int64_t j = 0; j < n; j += block_n) {
      multiply_block(part_of(product, i, std::min(block_m, m - i), j, std::min(block_n, n - j)), blocks.inner,
                     a_block, b_block, c_block);
    }
  }
}

// Where part `i` of `parts` starts: multiples of 16 keep the inner kernels off their slow edges.
int64_t part_start(int64_t count, int64_t i, int64_t parts) {
  constexpr int64_t kUnit = 16;
  int64_t units = (count + kUnit - 1) / kUnit;
  return std::min(count, units * i / parts * kUnit);
}

// How many parts C's rows are cut into (its columns into threads / rows): the cut that leaves each thread
// the least of A and B to read.
int64_t row_parts(int64_t m, int64_t n, int64_t threads) {
  int64_t best = 1;
  for (int64_t parts = 2; parts <= threads; ++parts) {
    if (threads % parts == 0 && m / parts + n * parts / threads < m / best + n * best / threads) {
      best = parts;
    }
  }
  return best;
}

int64_t threads_for(int64_t m, int64_t n, int64_t k) {
  bool alone = in_parallel() || m * n * k < kParallelWork;
  return alone ? 1 : thread_count();
}

template <typename T>
void load_rows(const MatrixView& source, float* destination, int64_t stride) {
  for (int64_t i = 0; i < source.rows; ++i) {
    const T* from = static_cast<const T*>(source.at(i, 0));
    float* to = destination + i * stride;
    require_addressable(from, source.columns);
    require_addressable(to, source.columns);
    load_row(from, to, source.columns);
  }
}

// All scales are powers of two: nothing but float8_code rounds.
void round_rows(const MatrixView& source, float* values, int64_t stride) {
  const RowRounding& rounding = *source.rounding;
  const auto& numbers = rounding.kind == Float8::e4m3 ? kE4m3Values : kE5m2Values;
  for (int64_t i = 0; i < source.rows; ++i) {
    float scale = rounding.row_scales[source.first_row + i];
    float factor = 1.0F / scale;
    float* row = values + i * stride;
    for (int64_t j = 0; j < source.columns; ++j) {
      bool is_scaled = rounding.column_scales != nullptr;
      float by = is_scaled ? rounding.column_scales[source.first_column + j] : 1.0F;
      row[j] = numbers[float8_code(rounding.kind, row[j] * by * factor)] * scale / by;
    }
  }
}

template <typename T>
void store_rows(const float* source, int64_t stride, const MatrixView& destination) {
  for (int64_t i = 0; i < destination.rows; ++i) {
    const float* from = source + i * stride;
    T* to = static_cast<T*>(destination.at(i, 0));
    require_addressable(from, destination.columns);
    require_addressable(to, destination.columns);
    store_row(from, to, destination.columns);
  }
}

}  // namespace

void load_block(const MatrixView& source, float* destination, int64_t destination_stride) {
  if (source.codes != nullptr) {
    for (int64_t i = 0; i < source.rows; ++i) {
      dequantise(*source.codes, static_cast<const std::byte*>(source.data),
                 {source.first_row + i, source.first_column, source.columns},
                 destination + i * destination_stride);
    }
    return;
  }
  with_type(source.dtype, [&](auto tag) {
    load_rows<typename decltype(tag)::type>(source, destination, destination_stride);
  });
  if (source.rounding != nullptr) {
    round_rows(source, destination, destination_stride);
  }
}

void store_block(const float* source, int64_t source_stride, const MatrixView& destination) {
  with_type(destination.dtype,
            [&](auto tag) { store_rows<typename decltype(tag)::type>(source, source_stride, destination); });
}

MatrixView as_floats(const MatrixView& source, float* block) {
  if (source.is_fp32()) {
    return source;
  }
  load_block(source, block, source.columns);
  return {block, DType::f32, source.rows, source.columns, source.columns};
}

int64_t gemm_workspace_bytes(const GemmSizes& sizes, int threads) {
  return threads * thread_workspace_bytes(sizes, blocks_within(kThreadScratchBytes, sizes, threads));
}

void gemm(const Gemm& product, std::span<std::byte> workspace) {
  int64_t m = product.c.rows;
  int64_t n = product.c.columns;
  int64_t k = inner_size(product);
  if (m == 0 || n == 0) {
    return;
  }
  int64_t threads = threads_for(m, n, k);
  GemmSizes sizes{m, n, k, product.a.format(), product.b.format(), product.c.format()};
  const Blocks& blocks = blocks_within(std::ssize(workspace), sizes, threads);
  if (threads == 1) {
    multiply_part(product, blocks, workspace);
    return;
  }
  int64_t across = row_parts(m, n, threads);
  int64_t along = threads / across;
  auto share = static_cast<size_t>(thread_workspace_bytes(sizes, blocks));
  SNUG_CHECK(share * static_cast<size_t>(threads) <= workspace.size(), "gemm was given too little workspace");
  for_each_part(static_cast<int>(threads), [&](int64_t part) {
    int64_t row = part_start(m, part / along, across);
    int64_t rows = part_start(m, part / along + 1, across) - row;
    int64_t column = part_start(n, part % along, along);
    int64_t columns = part_start(n, part % along + 1, along) - column;
    if (rows > 0 && columns > 0) {
      multiply_part(part_of(product, row, rows, column, columns), blocks,
                    workspace.subspan(static_cast<size_t>(part) * share, share));
    }
  });
}

}  // namespace snug::cpu
