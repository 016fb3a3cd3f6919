// Batches of changing lengths: after some steps no algorithm is chosen any more.
#include <set>

#include "backend/cuda/blas.h"
#include "backend/cuda_plan/token_sizes.h"
#include "cuda/on_both.h"

namespace snug::cuda {
namespace {

// All products of a linear layer at this number of tokens.
void run_layer(Blas& blas, int64_t tokens) {
  constexpr int64_t kIn = 256;
  constexpr int64_t kOut = 320;
  constexpr int64_t kMost = 4096;
  std::byte* next = shared_arena();
  auto take = [&](DType dtype, int64_t most_rows, int64_t columns) {
    Matrix matrix{next, dtype, most_rows, columns, columns};
    next += align_up(bytes_of(dtype, most_rows * columns));
    return matrix;
  };
  Matrix x = take(DType::bf16, kMost, kIn).row_block(0, tokens);
  Matrix y = take(DType::bf16, kMost, kOut).row_block(0, tokens);
  Matrix w = take(DType::bf16, kOut, kIn);
  Matrix dw = take(DType::f32, kOut, kIn);
  std::span<std::byte> workspace(next, static_cast<size_t>(kBlasWorkspaceBytes));
  blas.run({.a = x, .b = w, .c = y, .transpose_b = true}, workspace, nullptr);
  blas.run({.a = y, .b = w, .c = x, .accumulate = true}, workspace, nullptr);
  blas.run({.a = y, .b = x, .c = dw, .transpose_a = true, .accumulate = true}, workspace, nullptr);
}

TEST(CudaTokenSizes, NoAlgorithmIsChosenInTheSteadyState) {
  SKIP_WITHOUT_CARD();
  Blas blas(false);
  std::set<int64_t> classes;
  for (int64_t tokens = 1; tokens <= 4096; ++tokens) {
    classes.insert(size_class_of(tokens));
  }
  for (int64_t tokens : classes) {
    run_layer(blas, tokens);
  }
  size_t chosen = blas.choices();
  EXPECT_EQ(chosen, 3 * classes.size());
  for (int64_t tokens = 1; tokens <= 4096; tokens += 13) {
    run_layer(blas, tokens);
  }
  EXPECT_EQ(blas.choices(), chosen);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

}  // namespace
}  // namespace snug::cuda
