// One block a row, moved in the widest words that divide it; nothing is computed. A row number outside the
// table is a mistake of the program that wrote it: the kernel stops the run.
#include "backend/cuda/gathered_rows.h"

#include "backend/cuda/check.h"
#include "base/check.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = 128;

// The token of this block's row; -1: none.
__device__ int64_t own_token(const GatheredRows& rows) {
  int64_t token = rows.tokens[blockIdx.x];
  if (token >= rows.all_tokens) {
    __trap();
  }
  return token;
}

template <typename Word>
__global__ void gather_kernel(GatheredRows rows, const Word* all, Word* some, int64_t words) {
  int64_t token = own_token(rows);
  Word* to = some + static_cast<int64_t>(blockIdx.x) * words;
  for (int64_t i = threadIdx.x; i < words; i += kThreads) {
    to[i] = token < 0 ? Word{} : all[token * words + i];
  }
}

template <typename Word>
__global__ void scatter_kernel(GatheredRows rows, const Word* some, Word* all, int64_t words) {
  int64_t token = own_token(rows);
  if (token < 0) {
    return;
  }
  const Word* from = some + static_cast<int64_t>(blockIdx.x) * words;
  for (int64_t i = threadIdx.x; i < words; i += kThreads) {
    all[token * words + i] = from[i];
  }
}

// Calls with a word, and how many of them a row has.
template <typename Launch>
void with_words(const GatheredRows& rows, const Launch& launch) {
  int64_t bytes = rows.width * size_of(rows.dtype);
  if (bytes % 16 == 0) {
    launch(uint4{}, bytes / 16);
  } else if (bytes % 4 == 0) {
    launch(uint32_t{}, bytes / 4);
  } else {
    launch(uint16_t{}, bytes / 2);
  }
}

}  // namespace

void gather_rows(cudaStream_t stream, const GatheredRows& rows, const void* all, void* some) {
  with_words(rows, [&](auto word, int64_t words) {
    using Word = decltype(word);
    gather_kernel<<<static_cast<unsigned>(rows.count), kThreads, 0, stream>>>(
        rows, static_cast<const Word*>(all), static_cast<Word*>(some), words);
  });
  check_launch("gathering rows");
}

void scatter_rows(cudaStream_t stream, const GatheredRows& rows, const void* some, void* all) {
  with_words(rows, [&](auto word, int64_t words) {
    using Word = decltype(word);
    scatter_kernel<<<static_cast<unsigned>(rows.count), kThreads, 0, stream>>>(
        rows, static_cast<const Word*>(some), static_cast<Word*>(all), words);
  });
  check_launch("scattering rows");
}

}  // namespace snug::cuda
